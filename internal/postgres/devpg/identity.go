//go:build unix

package devpg

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// nobodyID is the customary uid and gid of a user without rights.
const nobodyID = 65534

// identity is the user that PostgreSQL's processes run as. Nil: the caller.
type identity struct{ uid, gid uint32 }

// serverIdentity is nil for an ordinary caller. Under root it is the owner of
// existing, if that is there and not root's, so that data made by an ordinary
// user stays that user's; else `postgres`, else `nobody`.
func serverIdentity(existing string) *identity {
	if os.Geteuid() != 0 {
		return nil
	}
	if info, err := os.Lstat(existing); existing != "" && err == nil && info.IsDir() {
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
			return &identity{uid: st.Uid, gid: st.Gid}
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr == nil && gidErr == nil && uid != 0 {
			return &identity{uid: uint32(uid), gid: uint32(gid)}
		}
	}
	return &identity{uid: nobodyID, gid: nobodyID}
}

func (id *identity) String() string {
	if id == nil {
		return "uid " + strconv.Itoa(os.Geteuid())
	}
	return "uid " + strconv.FormatUint(uint64(id.uid), 10)
}

func (id *identity) serverUID() uint32 {
	if id == nil {
		return uint32(os.Geteuid()) //nolint:gosec // a uid fits by definition
	}
	return id.uid
}

// command is a command that will run as id, in its own process group, so that a
// Ctrl-C meant for the caller does not reach it, in a folder that everybody may
// enter, and with an environment in which no PG* variable changes its meaning.
func (id *identity) command(ctx context.Context, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // running found binaries is the purpose
	cmd.Dir = "/"
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"),
		"LC_ALL=" + locale,
		"TZ=UTC",
	}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if id != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: id.uid, Gid: id.gid}
	}
	return cmd
}

// give makes id the owner of a file or folder that the caller has just made.
func (id *identity) give(path string) error {
	if id == nil {
		return nil
	}
	if err := os.Lchown(path, int(id.uid), int(id.gid)); err != nil {
		return fmt.Errorf("give %s to %s, as whom PostgreSQL runs: %w", path, id, err)
	}
	return nil
}

// reaches finds out whether a process of id can enter dir, by trying: modes,
// access lists and mounts all have a say.
func (id *identity) reaches(ctx context.Context, dir string) bool {
	return id.command(ctx, nil, "/bin/sh", "-c", `cd -- "$1"`, "sh", dir).Run() == nil
}

// ownedByCaller reports whether path is a folder, not a link, that belongs to
// the caller and that nobody else may write to. In a shared temporary folder
// anybody may have made the name first.
func ownedByCaller(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
