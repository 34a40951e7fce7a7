package reference

import (
	"slices"

	"github.com/onceward/onceward/internal/problem"
)

// problemPage is what the page of one code shows.
type problemPage struct {
	*view
	Entry    problem.Entry
	Advice   advice
	Answered []operation // the operations that may answer with it
}

func (v *view) problemPage(entry problem.Entry) problemPage {
	p := problemPage{view: v, Entry: entry, Advice: adviceFor(entry.Kind)}
	for _, g := range v.Groups {
		for _, o := range g.Operations {
			if slices.ContainsFunc(o.Answers, func(a answer) bool {
				return slices.Contains(a.Codes, string(entry.Kind)) || slices.Contains(a.Entries, string(entry.Kind))
			}) {
				p.Answered = append(p.Answered, o)
			}
		}
	}
	return p
}

// advice is what to do about a code. The table says what a code means; this
// says what the person who reads its page does next.
type advice struct {
	// Run answers whether the operation may run after this answer.
	Run string
	// Repeat answers whether the same call may be sent again as it was.
	Repeat string
	// Steps are what to do, in order.
	Steps []string
}

const (
	runNo       = "No."
	runNothing  = "This answer says nothing about running an operation."
	repeatNo    = "No: it would be answered in the same way."
	repeatYes   = "Yes, as it was. Every call is itself idempotent."
	repeatAfter = "Yes, as it was, after the seconds in Retry-After."
)

//nolint:gochecknoglobals // the table is a constant that Go cannot declare as one
var adviceTable = map[problem.Kind]advice{
	problem.InvalidRequest: {runNo, repeatNo, []string{
		"Read errors: each entry names a member of the body by its JSON pointer, or a header or parameter, and says what is expected.",
		"Mend the code that makes the request. Begin again with the same key: nothing was stored.",
		"If this was a lease call, the lease is still held: send the mended call before it ends, or renew it.",
	}},
	problem.InvalidKey: {runNo, repeatNo, []string{
		"Look at how the key is made: 8 to 255 printable ASCII characters, no space first or last.",
		"If a key can hold other letters, encode it, for example as base64url or hex, in the same way on every retry.",
	}},
	problem.MissingKey: {runNo, repeatNo, []string{
		"Send the member key. Take it from your own client, or make it once per operation and keep it over all retries.",
		"Never make a new key for a retry: it would protect nothing.",
	}},
	problem.Unauthenticated: {runNo, repeatNo, []string{
		"Send exactly one header Authorization: Bearer, followed by the API key and nothing else.",
		"If the key was rotated, the old one ends with its overlap: deploy the new one.",
		"A lease that is held stays held: any service credential of the namespace may complete it.",
	}},
	problem.Forbidden: {runNo, repeatNo, []string{
		"Read detail: it names the role needed and the role held.",
		"Use a credential with that role. Only service begins and completes; it belongs to one namespace.",
	}},
	problem.Suspended: {runNo, "Not until the tenant is active again.", []string{
		"Finish what is held: complete, renew, release and the other lease calls go on.",
		"Ask the operator of this service why the tenant was suspended.",
	}},
	problem.Reauthenticate: {runNothing, "Yes, with the API key itself.", []string{
		"Send the API key instead of the token made from it, or sign in to the dashboard with it again.",
	}},
	problem.NotFound: {runNo, repeatNo, []string{
		"Check the address, and that the id is the one that the begin answered.",
		"Check the credential: a record of another namespace or tenant looks like one that does not exist.",
		"If the record's retention has ended, it is gone: the next begin makes attempt 1.",
	}},
	problem.MethodNotAllowed: {runNo, repeatNo, []string{
		"Use a method that the header Allow lists.",
	}},
	problem.InProgress: {"No: somebody else is running it.", repeatAfter, []string{
		"Wait Retry-After seconds and begin again with the same key and your own owner, or send Prefer: wait=N to be answered as soon as it is decided.",
		"If your own client waits, answer it with a 409 and the same Retry-After.",
		"If this goes on until the lease ends, the holder has died: under takeover the next begin acquires the record.",
	}},
	problem.OutcomeUnknown: {"No: it may have been done already.", "Not until somebody has decided.", []string{
		"Find out at the provider or in your own data whether the work was done.",
		"If you hold the lease token of the attempt, complete the record with what was done, or release it if nothing was.",
		"Else somebody with the role resolver or admin decides.",
	}},
	problem.FingerprintMismatch: {runNo, repeatNo, []string{
		"Read differs: it names the parts of the request that are not those of the first begin.",
		"If this is a new operation, use a new key. If it is a retry, send the payload exactly as it was.",
		"If a part changes on every retry by design, such as a time of sending, have the policy ignore it with ignore_pointers.",
	}},
	problem.AlreadyCompleted: {runNo, repeatNo, []string{
		"Begin again, or inspect the record, to read the response that is stored.",
		"If it differs from what you did, the work may have been done twice: compare both and undo one.",
	}},
	problem.LeaseLost: {"No: stop what is still running under this lease.", repeatNo, []string{
		"Stop writing. If you guard a resource by the fence, it already refuses you.",
		"Begin again to learn what became of the record.",
		"If you had already done the work, it may be done twice: look at the record and at what the other attempt did.",
		"Choose a lease longer than your own hard time-out, renew it while you work, or set hold.",
	}},
	problem.LeaseLive: {runNothing, "Yes, once the lease has ended.", []string{
		"Wait for the lease to end or for its holder to complete. Force only when you know that nobody is running.",
	}},
	problem.RecordChanged: {runNothing, repeatNo, []string{
		"Inspect the record again and decide anew, with the fence that it shows now.",
	}},
	problem.NotUnknown: {runNothing, repeatNo, []string{
		"Inspect the record: it was decided already, or its holder answered after all.",
	}},
	problem.Immutable: {runNothing, repeatNo, []string{
		"Make a new object with the value that you need.",
	}},
	problem.NameTaken: {runNothing, repeatNo, []string{
		"Choose another name, or use the object that has this one.",
	}},
	problem.LastAdmin: {runNothing, "Yes, once there is another admin credential.", []string{
		"Issue another admin credential, then revoke this one.",
	}},
	problem.NotSuspended: {runNothing, "Yes, once the tenant is suspended.", []string{
		"Suspend the tenant first.",
	}},
	problem.PreconditionFailed: {runNothing, repeatNo, []string{
		"Read the resource again, look at what somebody else changed, and send the change with its new ETag in If-Match.",
	}},
	problem.PreconditionRequired: {runNothing, "Yes, with If-Match.", []string{
		"Read the resource and send its ETag in If-Match.",
	}},
	problem.BodyTooLarge: {runNo, repeatNo, []string{
		"Nothing was stored. If this was a completion, the lease is still held.",
		"Complete again with body_omitted, and body_ref if you keep the body elsewhere: retries then learn that the work is done.",
		"If this was a begin, send the fingerprint instead of the request.",
	}},
	problem.RequestTooLarge: {runNo, repeatNo, []string{
		"Send fewer entries at once, or complete as application/http, which does not grow by escapes.",
	}},
	problem.UnsupportedMediaType: {runNo, repeatNo, []string{
		"Send JSON as Content-Type: application/json; a completion may also be application/http.",
		"Send no Content-Encoding: bodies are not compressed on the way in.",
	}},
	problem.RateLimited: {runNo, repeatAfter, []string{
		"Wait Retry-After seconds and send the same call again.",
		"If this is the normal load, ask the operator for a higher limit; batches count their entries.",
	}},
	problem.QuotaExceeded: {runNo, "Yes, once there is room.", []string{
		"Replays and lease calls go on. New records need room: shorten the retention, prune, or ask the operator for more.",
	}},
	problem.KindInternal: {runNo, repeatYes, []string{
		"Send the same call with the same body again; a begin needs the same owner.",
		"If it goes on, report the request_id to the operator of this service.",
	}},
	problem.KindUnavailable: {runNo, repeatAfter, []string{
		"Send the same call with the same body again; a begin with the same owner is resumed within 30 s.",
		"Decide beforehand what your code does when this lasts: for an operation that must not run twice, refuse it.",
	}},
}

// adviceFor is empty for a kind that the table of advice does not have; a test
// keeps the two tables together.
func adviceFor(kind problem.Kind) advice { return adviceTable[kind] }
