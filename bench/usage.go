//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of times in /proc: USER_HZ, 100 on every Linux that Go
// runs on.
const clockTick = 10 * time.Millisecond

// usage is processor time that was used so far, user and system.
type usage struct{ api, postgres, generator time.Duration }

func (u usage) minus(v usage) usage {
	return usage{u.api - v.api, u.postgres - v.postgres, u.generator - v.generator}
}

func (u usage) plus(v usage) usage {
	return usage{u.api + v.api, u.postgres + v.postgres, u.generator + v.generator}
}

// stat is a process as /proc/<pid>/stat shows it.
type stat struct {
	parent        int
	own, ofReaped time.Duration // of the process; of its children that have ended
}

func readStat(pid string) (stat, error) {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return stat{}, err
	}
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const parentField, ownUser, reapedUser = 1, 11, 13 // proc(5), less pid and name
	if len(fields) < reapedUser+2 {
		return stat{}, fmt.Errorf("/proc/%s/stat has too few fields", pid)
	}
	numbers := make([]int64, reapedUser+2)
	for _, i := range []int{parentField, ownUser, ownUser + 1, reapedUser, reapedUser + 1} {
		if numbers[i], err = strconv.ParseInt(fields[i], 10, 64); err != nil {
			return stat{}, err
		}
	}
	ticks := func(i int) time.Duration { return time.Duration(numbers[i]+numbers[i+1]) * clockTick }
	return stat{int(numbers[parentField]), ticks(ownUser), ticks(reapedUser)}, nil
}

// usageOf is what the servers, the postmaster with all its children, and this
// process have used.
func usageOf(postmaster int, servers []*server) (usage, error) {
	var u usage
	for _, s := range servers {
		at, err := readStat(strconv.Itoa(s.pid()))
		if err != nil {
			return usage{}, fmt.Errorf("ask what %s has used: %w", s.name, err)
		}
		u.api += at.own
	}
	main, err := readStat(strconv.Itoa(postmaster))
	if err != nil {
		return usage{}, fmt.Errorf("ask what PostgreSQL has used: %w", err)
	}
	u.postgres = main.own + main.ofReaped
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return usage{}, err
	}
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		// One that has ended meanwhile is among the postmaster's reaped.
		if at, err := readStat(entry.Name()); err == nil && at.parent == postmaster {
			u.postgres += at.own
		}
	}
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		return usage{}, err
	}
	u.generator = time.Duration(self.Utime.Nano() + self.Stime.Nano())
	return u, nil
}

// memory is the resident memory of a process, now and at its highest, in bytes.
func memory(pid int) (now, highest int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64) // zero for the other lines
		switch name {
		case "VmRSS":
			now = kilobytes << 10
		case "VmHWM":
			highest = kilobytes << 10
		}
	}
	return now, highest, nil
}

// loadAverage is the machine's, of the last minute.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
