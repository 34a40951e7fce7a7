// The settings' own navigation; each view is in a file of its own.
import type { ComponentChildren } from "preact";
import { href, type Place } from "../router";
import { useRole } from "../session";
import { Audit } from "./audit";
import { Credentials } from "./credentials";
import { Namespaces } from "./namespaces";
import { Policies } from "./policy";
import { RetentionPage } from "./retention";
import { Usage } from "./usage";

const pages: [path: string, name: string, view: () => ComponentChildren][] = [
  ["/settings/retention", "Retention", () => <RetentionPage />],
  ["/settings/policy", "Policy", () => <Policies />],
  ["/settings/namespaces", "Namespaces", () => <Namespaces />],
  ["/settings/credentials", "Credentials", () => <Credentials />],
  ["/settings/audit", "Audit", () => <Audit />],
  ["/settings/usage", "Usage", () => <Usage />],
];

export function Settings({ place }: { place: Place }) {
  const role = useRole();
  const page = pages.find(([path]) => path === place.path) ?? pages[0]!;
  return (
    <>
      <div class="page-head">
        <h1>Settings</h1>
        <nav class="tabs" aria-label="Settings">
          {pages.map(([path, name]) => (
            <a href={href(path)} aria-current={path === page[0] ? "page" : undefined}>
              {name}
            </a>
          ))}
        </nav>
      </div>
      {role !== "admin" && (
        <p class="notice" role="note">
          You see the settings as they are. Changing them needs a credential with the role <code>admin</code>; yours is <code>{role}</code>.
        </p>
      )}
      {page[2]()}
    </>
  );
}
