package main

import (
	"context"
	"fmt"
	"sync"
)

// bank stands for a payment provider that does an idempotency key once.
type bank struct {
	mu    sync.Mutex // guards what follows
	made  []chargeMade
	byKey map[string]int // of made
	calls int
}

type chargeMade struct {
	ID      string `json:"id"`
	Account string `json:"account"`
	Amount  int    `json:"amount"` // in cents
}

func newBank() *bank { return &bank{byKey: make(map[string]int)} }

func (b *bank) charge(ctx context.Context, key, account string, amount int) (chargeMade, error) {
	if err := ctx.Err(); err != nil {
		return chargeMade{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	if n, done := b.byKey[key]; done && key != "" {
		return b.made[n], nil
	}
	made := chargeMade{ID: fmt.Sprintf("ch_%d", len(b.made)+1), Account: account, Amount: amount}
	b.byKey[key] = len(b.made)
	b.made = append(b.made, made)
	return made, nil
}

func (b *bank) charges() []chargeMade {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]chargeMade{}, b.made...)
}

// asked is how often the bank was asked to charge.
func (b *bank) asked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls
}
