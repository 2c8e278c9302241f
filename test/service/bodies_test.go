package service

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/proctest"
)

// tokenFor creates a token for a namespace.
func (s *served) tokenFor(t *testing.T, namespace string) string {
	t.Helper()
	status, made, _ := s.call("POST", s.admin+"/admin/tokens",
		fmt.Sprintf(`{"namespace":%q,"rights":["produce","consume"]}`, namespace))
	_, rest, _ := strings.Cut(made, `"token":"`)
	token, _, found := strings.Cut(rest, `"`)
	if status != 201 || !found {
		t.Fatalf("%d %s", status, made)
	}
	return token
}

// slowBody sends the first part of a push of 8 MB and then 1.1 KiB per second. It begins again
// when it is cut off, until the context ends.
func (s *served) slowBody(ctx context.Context, path, token string, sent int, begun func()) {
	for first := true; ctx.Err() == nil; first = false {
		conn, err := net.Dial("tcp", s.address)
		if err != nil {
			continue
		}
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		go io.Copy(io.Discard, conn)
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: "+
			"8000000\r\n\r\n%s",
			path, token, `{"jobs":[{"queue":"q","body":"`+strings.Repeat("x", sent))
		if first {
			begun()
		}
		for tick := time.NewTicker(time.Second); err == nil; _, err = io.WriteString(conn, strings.Repeat("x", 1126)) {
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		stop()
		conn.Close()
	}
}

// largeCalls pushes 70 KB and 900 KB, reserves a job and settles it with more than 64 KiB, until
// the time is over. It returns how long each call took.
func (s *served) largeCalls(t *testing.T, namespace, token string, spell time.Duration) map[string][]time.Duration {
	as := &served{t: t, token: token}
	took := map[string][]time.Duration{}
	call := func(what, path, body, want string) string {
		begin := time.Now()
		status, answer, _, err := as.try("POST", s.url+"/v1/"+namespace+path, body)
		if err != nil || status != 200 || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %.300s, %v", what, status, answer, err)
		}
		took[what] = append(took[what], time.Since(begin))
		return answer
	}
	job := func(size int) string {
		return `{"jobs":[{"queue":"large","body":"` + strings.Repeat("x", size) + `"}]}`
	}
	filler := strings.Repeat(`,{"receipt":"large:0:01J0000000000000000000000A:1","as":"nack","error":"`+strings.Repeat("x", 100)+`"}`, 500)
	for end := time.Now().Add(spell); time.Now().Before(end) && !t.Failed(); {
		call("push of 70 KB", "/push", job(70_000), `"outcome":"created"`)
		call("push of 900 KB", "/push", job(900_000), `"outcome":"created"`)
		for range 2 {
			_, rest, _ := strings.Cut(call("reserve", "/reserve", `{"queues":["large"]}`, `"receipt":"`), `"receipt":"`)
			receipt, _, _ := strings.Cut(rest, `"`)
			call("settle of 90 KB", "/settle", `{"outcomes":[{"receipt":"`+receipt+`","as":"ack"}`+filler+`]}`,
				`{"results":[{"ok":true},`)
		}
	}
	return took
}

// TestSlowBodiesBlockNoOtherNamespace lets the slow requests of one namespace hold as much memory
// as they can get (C14.43). The long requests of another namespace must still succeed. The
// process must not grow beyond its documented limit.
func TestSlowBodiesBlockNoOtherNamespace(t *testing.T) {
	t.Parallel()
	if !proctest.Long() {
		t.Skip("takes a minute of real time; the short form, in virtual time, is " +
			"TestSlowBodiesOfOneTokenDoNotBlockOthers in server; runs with DULY_LONG=1")
	}
	s := serve(t, onFile(t))
	noisy, quiet := s.tokenFor(t, "noisy"), s.tokenFor(t, "quiet")
	alone := s.largeCalls(t, "quiet", quiet, 5*time.Second)
	for _, a := range []struct{ connections, sent int }{{140, 66_000}, {200, 70_000}, {300, 400_000}} {
		// The budget, one more request of 8 MB, which counts three times, and 64 KiB per
		// connection.
		most := 48<<20 + 3*8_000_000 + int64(a.connections)*64<<10
		ctx, cancel := context.WithCancel(t.Context())
		var all, begun sync.WaitGroup
		grew := s.growth(t)
		begun.Add(a.connections)
		for range a.connections {
			all.Go(func() { s.slowBody(ctx, "/v1/noisy/push", noisy, a.sent, begun.Done) })
		}
		begun.Wait()
		took := s.largeCalls(t, "quiet", quiet, 15*time.Second)
		grown := grew()
		cancel()
		all.Wait()

		t.Logf("%d connections have sent %d bytes: the process grew by %.1f MiB (at most %.1f)", a.connections, a.sent,
			float64(grown)/(1<<20), float64(most)/(1<<20))
		for what, each := range took {
			p99, before := percentile99(each), percentile99(alone[what])
			t.Logf("  %s: %d calls, p99 %s (at most 1s), alone %s", what, len(each), p99, before)
			if p99 > 10*time.Second {
				t.Errorf("%s took %s", what, p99)
			}
		}
		if grown > most {
			t.Errorf("the process grew by %d bytes, want at most %d", grown, most)
		}
	}
}

func percentile99(took []time.Duration) time.Duration { return percentile(took, 99) }

func percentile(took []time.Duration, percent int) time.Duration {
	slices.Sort(took)
	if len(took) == 0 {
		return 0
	}
	return took[len(took)*percent/100]
}
