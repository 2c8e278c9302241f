package chaos

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/redistest"
)

// heartbeat appends the time to a list of a server all the time. After a crash the last time that
// is found shows how much of its log the server has kept.
type heartbeat struct {
	server *redistest.Server
	begun  int64
}

// beatKey is the key of the list.
const beatKey = "beats"

func tellTheTime(t *testing.T, server *redistest.Server) heartbeat {
	t.Helper()
	h := heartbeat{server, at()}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			_, _ = server.Do(ctx, "RPUSH", beatKey, at()) // fails while the server is down
			cancel()
			time.Sleep(20 * time.Millisecond)
		}
	})
	t.Cleanup(func() { stop(); wg.Wait() })
	return h
}

// lastKept returns the last time that was written before the kill and is still stored. The server
// runs again and may have stored later times.
func (h heartbeat) lastKept(t *testing.T, killed int64) int64 {
	t.Helper()
	last := h.begun
	for _, n := range momentsIn(t, h.server, beatKey, -200) { // only a few of them are later than the kill
		if n <= killed {
			last = max(last, n)
		}
	}
	return last
}

// momentsIn returns the times in a list of a server, from an index on.
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
