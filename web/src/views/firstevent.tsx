import { Card, Copy } from "../ui/basics";

// The empty dashboard says how to fill it.
export function FirstEvent() {
  const curl = `curl -i ${location.origin}/v1/keys \\
  -H "Authorization: Bearer $ONCEWARD_KEY" -H "Content-Type: application/json" \\
  -d '{"key": "first-'$(date +%s)'", "request": {"method": "POST", "path": "/v1/charges", "body": "{\\"amount\\": 4999}"}}'`;
  return (
    <Card title="Nothing has been begun yet" class="first">
      <p>
        Figures appear here within seconds of the first begin. In a terminal, with the API key of a credential that has the role{" "}
        <code>service</code> in <code>ONCEWARD_KEY</code> (in a checkout: <code>eval "$(make -s env)"</code>):
      </p>
      <pre class="code">{curl}</pre>
      <p>
        <Copy text={curl} label="Copy the command" />
      </p>
      <p class="muted">
        201: you hold the lease. The same command with the same key is then refused as in progress: the first 409 of this page. In a checkout,{" "}
        <code>make demo</code> sends a few minutes of traffic with a client that misbehaves.
      </p>
    </Card>
  );
}
