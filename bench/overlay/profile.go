//go:build onceward_profile

// Command overlay is a file that is laid over cmd/api by `bench -profile`, and is part of no other
// build: the product has no door through which it could be profiled.
//
// SIGUSR1 begins a CPU profile, SIGUSR2 ends it and writes what was allocated,
// into the folder that ONCEWARD_BENCH_PROFILES names.
package main

import (
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"syscall"
)

func init() {
	folder := os.Getenv("ONCEWARD_BENCH_PROFILES")
	if folder == "" {
		return
	}
	runtime.SetMutexProfileFraction(100)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for n := 1; ; n++ {
			path := func(kind string) string { return filepath.Join(folder, strconv.Itoa(n)+"."+kind+".prof") }
			<-signals
			cpu, err := os.Create(path("cpu"))
			if err != nil {
				panic(err)
			}
			if err := pprof.StartCPUProfile(cpu); err != nil {
				panic(err)
			}
			<-signals
			pprof.StopCPUProfile()
			_ = cpu.Close()
			for _, kind := range []string{"allocs", "mutex", "heap"} {
				out, err := os.Create(path(kind))
				if err != nil {
					panic(err)
				}
				_ = pprof.Lookup(kind).WriteTo(out, 0)
				_ = out.Close()
			}
			if err := os.WriteFile(path("done"), nil, 0o600); err != nil {
				panic(err)
			}
		}
	}()
}
