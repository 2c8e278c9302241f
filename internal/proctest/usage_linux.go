package proctest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// tick is the unit of CPU time in /proc: USER_HZ is 100 on every Linux.
const tick = 10 * time.Millisecond

// CPU returns the processor time that a process has used in all its threads, in user and
// kernel mode, as getrusage returns it. The resolution is 10 ms.
func CPU(t testing.TB, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	// The program's name is in parentheses and may contain spaces. The third field follows it.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const user, system = 14 - 3, 15 - 3
	return time.Duration(number(t, fields[user])+number(t, fields[system])) * tick
}

// Memory returns the resident memory of a process in bytes.
func Memory(t testing.TB, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	const resident = 1
	return number(t, strings.Fields(string(text))[resident]) * int64(os.Getpagesize())
}

func number(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
