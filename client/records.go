package client

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// State is what a record is at the moment of looking.
type State string

// The states of a record (wire contract, section 2).
const (
	StateInProgress State = "in_progress"
	StateLapsed     State = "lapsed"
	StateUnknown    State = "unknown"
	StateOpen       State = "open"
	StateCompleted  State = "completed"
)

// Record is what there is to see of one key. It never has the token, the owner
// or the fingerprint.
type Record struct {
	ID             RecordID
	Namespace      string
	Caller         string
	Operation      string
	Key            string
	State          State
	Attempt        int
	Fence          int64
	LeaseExpiresAt time.Time // zero unless in progress or lapsed
	OnLeaseExpiry  OnLeaseExpiry
	RecoveryPoint  *RecoveryPoint // nil where none, and for a role that may not see it
	Metadata       map[string]string
	Status         int // of the stored response; 0 where none
	BodyBytes      int
	CreatedAt      time.Time
	CompletedAt    time.Time // zero unless completed
	ExpiresAt      time.Time // zero while the record does not expire
	History        []RecordAttempt
	Response       *Response        // where asked for, and completed
	Late           []LateCompletion // where asked for
}

// RecordAttempt is one of the last 20 acquisitions of a record, oldest first.
type RecordAttempt struct {
	Attempt    int       `json:"attempt"`
	BegunAt    time.Time `json:"begun_at"`
	EndedAt    time.Time `json:"ended_at"` // zero while it has not ended
	How        string    `json:"how"`      // how it ended; empty while it has not
	Credential string    `json:"credential"`
	TraceID    string    `json:"trace_id"`
}

// LateCompletion is what a former holder tried to store: it may mean that the
// work was done twice.
type LateCompletion struct {
	At             time.Time `json:"at"`
	Fence          int64     `json:"fence"`
	Status         int       `json:"status"`
	HeaderNames    []string  `json:"header_names"`
	BodyBytes      int       `json:"body_bytes"`
	BodySHA256     string    `json:"body_sha256"` // in hex
	BodyHead       string    `json:"body_head"`   // the first 16 KiB, where they are text
	BodyHeadBase64 []byte    `json:"body_head_base64"`
	Credential     string    `json:"credential"`
	TraceID        string    `json:"trace_id"`
}

type recordWire struct {
	ID             RecordID           `json:"id"`
	Namespace      string             `json:"namespace"`
	Caller         string             `json:"caller"`
	Operation      string             `json:"operation"`
	Key            string             `json:"key"`
	State          State              `json:"state"`
	Attempt        int                `json:"attempt"`
	Fence          int64              `json:"fence"`
	LeaseExpiresAt time.Time          `json:"lease_expires_at"`
	OnLeaseExpiry  OnLeaseExpiry      `json:"on_lease_expiry"`
	RecoveryPoint  *recoveryPointWire `json:"recovery_point"`
	Metadata       map[string]string  `json:"metadata"`
	Status         int                `json:"status"`
	BodyBytes      int                `json:"body_bytes"`
	CreatedAt      time.Time          `json:"created_at"`
	CompletedAt    time.Time          `json:"completed_at"`
	ExpiresAt      time.Time          `json:"expires_at"`
	History        []RecordAttempt    `json:"history"`
	Response       *responseWire      `json:"response"`
	Late           []LateCompletion   `json:"late"`
}

func (w recordWire) record() Record {
	r := Record{
		ID: w.ID, Namespace: w.Namespace, Caller: w.Caller, Operation: w.Operation, Key: w.Key, State: w.State,
		Attempt: w.Attempt, Fence: w.Fence, LeaseExpiresAt: w.LeaseExpiresAt, OnLeaseExpiry: w.OnLeaseExpiry,
		Metadata: w.Metadata, Status: w.Status, BodyBytes: w.BodyBytes,
		CreatedAt: w.CreatedAt, CompletedAt: w.CompletedAt, ExpiresAt: w.ExpiresAt, History: w.History, Late: w.Late,
	}
	if p := w.RecoveryPoint; p != nil {
		r.RecoveryPoint = &RecoveryPoint{Name: p.Name, Data: p.Data}
	}
	if w.Response != nil {
		response := w.Response.response()
		r.Response = &response
	}
	return r
}

// Include says which parts of a record to show beside its own members.
type Include string

// The parts.
const (
	IncludeResponse Include = "response" // roles service and admin
	IncludeLate     Include = "late"     // role admin
)

// Inspect reads a record: GET /v1/keys/{id}; roles service, ops, resolver and admin.
func (c *Client) Inspect(ctx context.Context, id RecordID, include ...Include) (Record, error) {
	r := request{call: callInspect, method: http.MethodGet, path: recordPath(id)}
	if len(include) > 0 {
		parts := make([]string, len(include))
		for i, part := range include {
			parts[i] = string(part)
		}
		r.path += "?include=" + strings.Join(parts, ",")
	}
	var w recordWire
	if err := c.fetch(ctx, r, &w); err != nil {
		return Record{}, err
	}
	return w.record(), nil
}

// Search is a filter over records: texts are compared whole, times with
// CreatedAt. Members that are empty do not filter.
type Search struct {
	Key       string            `json:"key,omitzero"`
	Caller    string            `json:"caller,omitzero"`
	Operation string            `json:"operation,omitzero"`
	Namespace string            `json:"namespace,omitzero"`
	State     State             `json:"state,omitzero"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	Since     time.Time         `json:"since,omitzero"` // inclusive
	Until     time.Time         `json:"until,omitzero"` // exclusive
	Limit     int               `json:"limit,omitzero"` // 1 to 200; 0: 50
	Cursor    string            `json:"cursor,omitzero"`
}

// SearchResult is one page of records, newest first, each as it is now and
// without its history.
type SearchResult struct {
	Items      []Record
	NextCursor string // for Search.Cursor of the next page; empty at the end
	// Lag is by how much the search may run behind: a record that was made since
	// may be missing.
	Lag time.Duration
}

// Search finds records: POST /v1/keys/search; roles ops, resolver and admin. An
// empty filter finds all of the tenant's.
func (c *Client) Search(ctx context.Context, filter Search) (SearchResult, error) {
	r, err := postRequest(callSearch, "/v1/keys/search", filter)
	if err != nil {
		return SearchResult{}, err
	}
	var w struct {
		Items      []recordWire `json:"items"`
		NextCursor string       `json:"next_cursor"`
		LagSeconds float64      `json:"lag_seconds"`
	}
	if err := c.fetch(ctx, r, &w); err != nil {
		return SearchResult{}, err
	}
	result := SearchResult{NextCursor: w.NextCursor, Lag: time.Duration(w.LagSeconds * float64(time.Second))}
	for _, item := range w.Items {
		result.Items = append(result.Items, item.record())
	}
	return result, nil
}

// Forget names a record to remove.
type Forget struct {
	ID     RecordID `json:"-"`
	Fence  int64    `json:"fence"`          // that Inspect showed
	Reason string   `json:"reason"`         // 3 to 500 characters, for the audit
	Force  bool     `json:"force,omitzero"` // although somebody holds its lease
}

// Forget removes a record, so that its key is new again: POST
// /v1/keys/{id}/forget; role admin. ErrLeaseLive without Force, ErrRecordChanged:
// nothing happened.
func (c *Client) Forget(ctx context.Context, forget Forget) error {
	r, err := postRequest(callForget, recordPath(forget.ID)+"/forget", forget)
	if err != nil {
		return err
	}
	_, _, err = c.do(ctx, r, c.config.RetryFor)
	return err
}

// Resolution decides a record whose outcome is unknown.
type Resolution struct {
	ID     RecordID
	Fence  int64  // that Inspect showed
	Reason string // 3 to 500 characters, for the audit
	// Response completes the record with that response; nil opens it, for a
	// retry to run the operation again.
	Response *Response
}

type resolutionWire struct {
	ID       RecordID      `json:"id,omitzero"`
	Fence    int64         `json:"fence"`
	Reason   string        `json:"reason"`
	Action   string        `json:"action"`
	Response *responseWire `json:"response,omitzero"`
}

func (r Resolution) wire() resolutionWire {
	w := resolutionWire{Fence: r.Fence, Reason: r.Reason, Action: "retry"}
	if r.Response != nil {
		response := r.Response.wire()
		w.Action, w.Response = "complete", &response
	}
	return w
}

// Resolve decides one record: POST /v1/keys/{id}/resolution; roles resolver
// and admin. ErrNotUnknown, ErrRecordChanged: nothing happened.
func (c *Client) Resolve(ctx context.Context, resolution Resolution) (Record, error) {
	r, err := postRequest(callResolve, recordPath(resolution.ID)+"/resolution", resolution.wire())
	if err != nil {
		return Record{}, err
	}
	var w recordWire
	if err := c.fetch(ctx, r, &w); err != nil {
		return Record{}, err
	}
	return w.record(), nil
}

// Contract is what holds for the credential's namespace: GET /v1/contract.
type Contract struct {
	Namespace     ContractNamespace   `json:"namespace"`
	PolicyVersion int64               `json:"policy_version"` // rises with every change
	KeyPattern    string              `json:"key_pattern"`    // ECMA-262
	Defaults      ContractPolicy      `json:"defaults"`
	Operations    []ContractOperation `json:"operations"` // those with a policy of their own
	Limits        ContractLimits      `json:"limits"`
}

// ContractNamespace is the namespace.
type ContractNamespace struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	KeyScope string `json:"key_scope"` // operation, or namespace
}

// ContractPolicy is what a begin gets that asks for nothing.
type ContractPolicy struct {
	RetentionSeconds int64         `json:"retention_seconds"`
	LeaseSeconds     int64         `json:"lease_seconds"`
	OnLeaseExpiry    OnLeaseExpiry `json:"on_lease_expiry"`
	IgnorePointers   []string      `json:"ignore_pointers"` // for Request.Fingerprint
}

// ContractOperation is the policy of one operation.
type ContractOperation struct {
	Operation string `json:"operation"`
	ContractPolicy
}

// ContractLimits are the limits of the calls: sizes in bytes, durations in
// seconds.
type ContractLimits struct {
	BodyBytes           int64 `json:"body_bytes"`
	JSONRequestBytes    int64 `json:"json_request_bytes"`
	HTTPMessageBytes    int64 `json:"http_message_bytes"`
	BatchRequestBytes   int64 `json:"batch_request_bytes"`
	BatchEntries        int   `json:"batch_entries"`
	MinRetentionSeconds int64 `json:"min_retention_seconds"`
	MaxRetentionSeconds int64 `json:"max_retention_seconds"`
	MinLeaseSeconds     int64 `json:"min_lease_seconds"`
	MaxLeaseSeconds     int64 `json:"max_lease_seconds"`
	MaxWaitSeconds      int64 `json:"max_wait_seconds"`
	MetadataPairs       int   `json:"metadata_pairs"`
	MetadataValueLength int   `json:"metadata_value_length"`
}

// Contract reads what holds for the credential's namespace; role service.
func (c *Client) Contract(ctx context.Context) (Contract, error) {
	var contract Contract
	err := c.fetch(ctx, request{call: callContract, method: http.MethodGet, path: "/v1/contract"}, &contract)
	return contract, err
}

// fetch makes a call and reads its answer.
func (c *Client) fetch(ctx context.Context, r request, into any) error {
	a, _, err := c.do(ctx, r, c.config.RetryFor)
	if err != nil {
		return err
	}
	return a.decode(r.call, into)
}

func postRequest(call, path string, v any) (request, error) {
	body, err := encode(call, v)
	return request{call: call, method: http.MethodPost, path: path, body: body, contentType: mediaJSON}, err
}
