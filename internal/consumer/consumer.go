// Package consumer has the name of this process as a consumer of groups.
package consumer

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"sync"
)

// mostHost is the maximum length of the host's part of the name, in bytes.
const mostHost = 63

// Name returns the process's name as a consumer: HOST-PID-RANDOM. The random part
// distinguishes processes on hosts of the same name, such as containers.
var Name = sync.OnceValue(func() string {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	var random [4]byte
	rand.Read(random[:]) // never fails; see crypto/rand
	return name(host, os.Getpid(), random[:])
})

func name(host string, pid int, random []byte) string {
	host = strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
			return c
		}
		return '-'
	}, host)
	if len(host) > mostHost {
		host = host[:mostHost]
	}
	// A consumer's name must not be empty or begin with a dot.
	if host == "" || host[0] == '.' {
		host = "host" + host
	}
	return host + "-" + strconv.Itoa(pid) + "-" + hex.EncodeToString(random)
}
