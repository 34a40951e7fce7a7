package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/onceward/onceward/client"
)

// These examples are compiled with every test; the programs below examples/ run
// against a real service.

func ExampleClient_Protect() {
	onceward, err := client.New(client.Config{BaseURL: "https://onceward.example", APIKey: "ow_…"})
	if err != nil {
		log.Fatal(err)
	}
	accountOf := func(r *http.Request) (string, error) {
		account, _, ok := r.BasicAuth() // whatever proves it in your service
		if !ok {
			return "", errors.New("nobody is signed in")
		}
		return account, nil
	}
	protect, err := onceward.Protect(client.Middleware{
		Caller: accountOf,
		Routes: map[string]client.Route{
			"POST /v1/payouts": {Hold: true},        // money: never twice, whatever breaks
			"POST /v1/events":  {KeyOptional: true}, // protected where a key is sent
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/payouts", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated) // runs once per key
	})
	_ = http.Server{Handler: protect(mux), ReadHeaderTimeout: 10 * time.Second}
}

func ExampleClient_Do() {
	onceward, err := client.New(client.Config{BaseURL: "https://onceward.example", APIKey: "ow_…"})
	if err != nil {
		log.Fatal(err)
	}
	key, err := client.Key("order", 42, "confirmation")
	if err != nil {
		log.Fatal(err)
	}
	op := client.Operation{Key: key, Name: "mail:confirmation", Request: &client.Request{Body: []byte("42")}}
	result, err := onceward.Do(context.Background(), op, func(context.Context, *client.Lease) (client.Response, error) {
		// send the mail
		return client.Response{Status: 200}, nil
	})
	switch {
	case err == nil:
		fmt.Println("sent, now or before:", result.Replay)
	case errors.Is(err, client.ErrOutcomeUnknown):
		fmt.Println("nobody knows whether it was sent")
	}
}

func ExampleClient_Do_provider() {
	onceward, err := client.New(client.Config{BaseURL: "https://onceward.example", APIKey: "ow_…"})
	if err != nil {
		log.Fatal(err)
	}
	// HonoursKey: this provider promises to do an idempotency key once.
	bank := &http.Client{Transport: &client.Transport{HonoursKey: true}}
	op := client.Operation{Key: "order-42-charge", Name: "charge", Request: &client.Request{Body: []byte("4999")}, Resumable: true}
	_, err = onceward.Do(context.Background(), op, func(ctx context.Context, lease *client.Lease) (client.Response, error) {
		ctx = client.WithKey(ctx, lease.DownstreamKey("bank", "charge")) // the same in every attempt
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://bank.example/charges", nil)
		if err != nil {
			return client.Response{}, client.NotDone(err)
		}
		resp, err := bank.Do(req)
		if err == nil {
			defer resp.Body.Close() //nolint:errcheck // an example
		}
		if err := client.AfterCall(resp, err); err != nil { // a definite refusal frees the key, a time-out does not
			return client.Response{}, err
		}
		return client.Response{Status: http.StatusCreated}, nil
	})
	if err != nil {
		log.Print(err)
	}
}

func ExampleKey() {
	// From what the database keeps of the order, and never from a clock or a
	// random number: the retry after a crash must carry the same key.
	key, err := client.Key("order", 42, "charge", 4999)
	fmt.Println(key, err)
	again, err := client.Key("order", int64(42), "charge", uint(4999))
	fmt.Println(again == key, err)
	other, err := client.Key("order", 42, "charge", 5999)
	fmt.Println(other == key, err)
	_, err = client.Key("order", "")
	fmt.Println(err)
	// Output:
	// 12776f86-e539-88d1-be92-4a4e15de382a <nil>
	// true <nil>
	// false <nil>
	// onceward: part 2 of a key: it is an empty string; is the id missing?
}
