package chaos

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/redistest"
)

// heartbeat tells a server the time, again and again: what of that is found
// after a crash is how far its log had come.
type heartbeat struct {
	server *redistest.Server
	begun  int64
}

// beatKey is where that stands.
const beatKey = "beats"

func tellTheTime(t *testing.T, server *redistest.Server) heartbeat {
	t.Helper()
	h := heartbeat{server, at()}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			_, _ = server.Do(ctx, "RPUSH", beatKey, at()) // while it is down nobody is told
			cancel()
			time.Sleep(20 * time.Millisecond)
		}
	})
	t.Cleanup(func() { stop(); wg.Wait() })
	return h
}

// lastKept is the last moment that the server was told before it was killed, and
// still knows. The server runs again, and may have been told others.
func (h heartbeat) lastKept(t *testing.T, killed int64) int64 {
	t.Helper()
	last := h.begun
	for _, n := range momentsIn(t, h.server, beatKey, -200) { // few of which are new
		if n <= killed {
			last = max(last, n)
		}
	}
	return last
}

// momentsIn are the moments that a server was told and keeps in a list, from a place
// of it on.
func momentsIn(t *testing.T, server *redistest.Server, list string, from int) (all []int64) {
	t.Helper()
	for _, text := range server.Must("LRANGE", list, from, -1).([]any) {
		n, err := strconv.ParseInt(text.(string), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}
