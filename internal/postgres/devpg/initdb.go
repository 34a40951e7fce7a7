//go:build unix

package devpg

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func (h *home) stagePath() string { return h.data + ".new" }

// initdb makes the data folder under another name and renames it when it is
// whole, so that one which was interrupted is never mistaken for data.
func initdb(ctx context.Context, h *home, bin binaries, fast bool) error {
	stage, password := h.stagePath(), h.stagePath()+".password"
	for _, leftover := range []string{stage, password} {
		if err := os.RemoveAll(leftover); err != nil {
			return fmt.Errorf("remove what an interrupted start left: %w", err)
		}
	}
	if err := os.Mkdir(stage, 0o700); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	if err := h.id.give(stage); err != nil {
		return err
	}
	if err := os.WriteFile(password, []byte(newPassword()+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the password of the data folder: %w", err)
	}
	if err := h.id.give(password); err != nil {
		return err
	}
	args := []string{
		"--pgdata=" + stage, "--username=" + superuser, "--pwfile=" + password,
		"--auth=scram-sha-256", "--encoding=UTF8", "--no-instructions",
	}
	if fast {
		args = append(args, "--no-sync")
	}
	out, err := h.id.command(ctx, bin.env, filepath.Join(bin.dir, "initdb"), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make the data folder %s with %s/initdb: %w: %s", h.data, bin.dir, err, oneLine(string(out)))
	}
	if err := os.Rename(password, filepath.Join(stage, passwordFile)); err != nil {
		return fmt.Errorf("keep the password of the data folder: %w", err)
	}
	// An empty folder of the wanted name may be there already; a rename over
	// one is refused by some systems.
	_ = os.Remove(h.data)
	if err := os.Rename(stage, h.data); err != nil {
		return fmt.Errorf("put the data folder in its place: %w", err)
	}
	return nil
}

// oneLine is the end of a program's output, on one line.
func oneLine(out string) string {
	const maxBytes = 600
	line := strings.Join(strings.Fields(out), " ")
	if len(line) > maxBytes {
		line = "… " + strings.ToValidUTF8(line[len(line)-maxBytes:], "")
	}
	return line
}
