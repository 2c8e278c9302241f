package main

import (
	"os"
	"runtime"
	"testing"
	"time"
)

func TestCPUOfAProcess(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc, so it runs on Linux")
	}
	before, err := cpuOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		now, err := cpuOf(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if now > before {
			return
		}
	}
	t.Error("a process that is busy for a minute uses no CPU time")
}

func TestCPUOfUnknownProcessIsAnError(t *testing.T) {
	t.Parallel()
	if cpu, err := cpuOf(-1); err == nil {
		t.Errorf("process -1 has used %s", cpu)
	}
}
