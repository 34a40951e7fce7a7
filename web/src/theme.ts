// Light, dark, or as the system says. The choice is all that this page stores.
export type Theme = "system" | "light" | "dark";

const name = "onceward-theme";

export function theme(): Theme {
  try {
    const t = localStorage.getItem(name);
    return t === "light" || t === "dark" ? t : "system";
  } catch {
    return "system"; // storage is switched off
  }
}

export function applyTheme(): void {
  const t = theme();
  if (t === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = t;
}

export function setTheme(t: Theme): void {
  try {
    if (t === "system") localStorage.removeItem(name);
    else localStorage.setItem(name, t);
  } catch {
    // it holds until the page is left
  }
  if (t === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = t;
}
