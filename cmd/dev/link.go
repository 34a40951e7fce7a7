//go:build unix

package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/auth"
)

// signInLink makes what signs the demo admin in at the dashboard, once.
func signInLink(ctx context.Context, pool *pgxpool.Pool, now access) (string, error) {
	admin, err := auth.ParseKey(now.Credentials[string(auth.RoleAdmin)])
	if err != nil {
		return "", fmt.Errorf("make the dashboard's link: %w", err)
	}
	sessions, err := auth.NewSessions(pool)
	if err != nil {
		return "", fmt.Errorf("set up the dashboard's sessions: %w", err)
	}
	link, err := sessions.NewLink(ctx, now.tenant.ID, admin.ID())
	if err != nil {
		return "", fmt.Errorf("make the dashboard's link: %w", err)
	}
	return link, nil
}
