// Package client makes an operation run once over all its retries, with the
// help of an Onceward service: in front of an HTTP endpoint, around a function,
// and around each message of a queue.
//
// One client per process. Protect an endpoint, with net/http, chi or any router
// that takes a middleware:
//
//	onceward, err := client.New(client.Config{BaseURL: url, APIKey: key})
//	if err != nil {
//		return err
//	}
//	protect, err := onceward.Protect(client.Middleware{Caller: accountOf})
//	if err != nil {
//		return err
//	}
//	router.With(protect).Post("/v1/charges", charge)
//
// A request with an Idempotency-Key then runs once. Its retries get its
// response, byte for byte; a retry that comes too early waits for it; the same
// key with another payload is refused. Caller says whose request it is, from
// authenticated identity: keys of two callers never meet. While Onceward is out
// of reach, requests are answered with 503 and do not run.
//
// Or protect a function, and let its last line be what every retry gets:
//
//	op := client.Operation{Key: key, Name: "charge", Request: &client.Request{Body: order}}
//	result, err := onceward.Do(ctx, op, func(ctx context.Context, lease *client.Lease) (client.Response, error) {
//		charge, err := bank.Charge(client.WithKey(ctx, lease.DownstreamKey("bank", "charge")), order)
//		if err != nil {
//			return client.Response{}, err // nobody knows whether it was charged: nothing runs again by itself
//		}
//		return client.JSONResponse(201, charge)
//	})
//
// An error means that nobody knows whether the work was done, unless the
// function says that it was not (NotDone) or that its failure is final
// (StoreFailure). That is the safe default: the record waits for a person. A
// handler's response is stored whatever its status, unless the handler calls
// NotDoneHere or UnknownHere; a panic leaves the outcome unknown.
//
// Errors are told apart by code, whatever wraps them:
//
//	switch {
//	case errors.Is(err, client.ErrInProgress):     // another attempt is at it
//	case errors.Is(err, client.ErrMismatch):       // the key was used for another request
//	case errors.Is(err, client.ErrOutcomeUnknown): // nobody knows; waiting does not help
//	case errors.Is(err, client.ErrLeaseLost):      // another attempt may have done it too
//	case client.OutOfReach(err):                   // nothing is known; try again later
//	}
//
// What Onceward cannot do is commit together with your database or provider: a
// process can die between the work and the word that it is done. Three tools
// close that gap. Lease.DownstreamKey gives a provider the same idempotency key
// in every attempt. Lease.Fence lets your database refuse an attempt that was
// overtaken. Lease.SetRecoveryPoint tells the next attempt how far this one
// came. A function that uses them may be marked Resumable, and is then handed
// what broke off; any other is not run again behind a broken attempt.
//
// The other entrances: Client.Batch for consumers of a queue, Transport for
// calls to providers, Key for keys that outlive a restart, and the single calls
// of the wire contract (Begin, Complete, Renew and on).
//
// The package owns no state beside the client's own, imports nothing of the
// server, and never makes up a key. It needs the standard library,
// github.com/go-json-experiment/json (whose raw numbers the fingerprint is made
// of) and the OpenTelemetry API, without its SDK and without its globals.
package client
