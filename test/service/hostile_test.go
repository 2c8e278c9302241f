package service

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/proctest"
)

// probe is a normal client that pushes jobs one after another and notes how long each push took.
type probe struct {
	s     *served
	path  string
	token string
	stop  chan struct{}
	done  chan struct{}
	took  []time.Duration
	n     atomic.Int64 // number of values in took
}

func (s *served) probe(path, token string) *probe {
	p := &probe{s: s, path: path, token: token, stop: make(chan struct{}), done: make(chan struct{})}
	go p.run()
	return p
}

func (p *probe) run() {
	defer close(p.done)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
		}
		c := caller{url: p.s.url, token: p.token, transport: transport}
		begin := time.Now()
		if why, _ := c.post(p.s.t.Context(), p.path, `{"jobs":[{"queue":"honest","body":"x"}]}`,
			`"outcome":"created"`); why != "" {
			p.s.t.Errorf("a push of the normal client: %s", why)
			return
		}
		p.took = append(p.took, time.Since(begin))
		p.n.Add(1)
	}
}

// await waits until this many pushes were answered, or the probe has failed.
func (p *probe) await(t *testing.T, pushes int) {
	t.Helper()
	eventually.True(t, fmt.Sprintf("%d pushes of an honest client", pushes),
		func() bool { return p.n.Load() >= int64(pushes) || p.s.t.Failed() })
}

// p99 ends the probe and returns the 99th percentile.
func (p *probe) p99() time.Duration {
	close(p.stop)
	<-p.done
	if len(p.took) == 0 {
		p.s.t.Error("no push of the normal client was answered")
		return 0
	}
	return percentile99(p.took)
}

// TestSlowHeadsAreCutOff opens thousands of connections whose headers arrive at a byte every five
// seconds (fault R1). The server closes them within ten seconds. They use little memory, and other
// clients are served.
func TestSlowHeadsAreCutOff(t *testing.T) {
	t.Parallel()
	if !proctest.Long() {
		t.Skip("takes ten seconds of real time; the short form, in virtual time, is TestSlowHeadsAreCutOffInTime " +
			"in server; runs with DULY_LONG=1")
	}
	const connections, promised = 5000, 10 * time.Second
	s := serve(t, onFile(t))
	idle := s.probe("/v1/default/push", s.token)
	idle.await(t, 500)
	before := idle.p99()
	memory := s.memory(t)
	honest := s.probe("/v1/default/push", s.token)
	var longest atomic.Int64
	var all sync.WaitGroup
	turns := make(chan struct{}, opening)
	for range connections {
		turns <- struct{}{}
		conn, err := net.Dial("tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		<-turns
		begin := time.Now()
		fmt.Fprint(conn, "POST /v1/default/push HTTP/1.1\r\nX: ")
		drip := time.NewTicker(5 * time.Second)
		all.Go(func() {
			for range drip.C {
				if _, err := conn.Write([]byte("x")); err != nil {
					return
				}
			}
		})
		all.Go(func() {
			io.Copy(io.Discard, conn)
			conn.Close()
			for took := int64(time.Since(begin)); ; {
				if last := longest.Load(); took <= last || longest.CompareAndSwap(last, took) {
					return
				}
			}
		})
	}
	each := (s.memory(t) - memory) / connections
	all.Wait()
	during := honest.p99()
	t.Logf("%d connections: %.1f KiB each (at most 40), the last was cut off after %s (at most %s); an honest push: "+
		"p99 %s, %s without them",
		connections, float64(each)/1024, time.Duration(longest.Load()).Round(time.Millisecond), promised, during, before)
	if each > memoryOfAPoll {
		t.Errorf("a connection took %d bytes", each)
	}
	if longest.Load() > int64(10*promised) {
		t.Errorf("a connection was cut off after %s", time.Duration(longest.Load()))
	}
}

// hostile are requests that try to use more memory than allowed.
var hostile = map[string]func(w io.Writer) error{
	"an endless body": func(w io.Writer) error {
		chunk := "10000\r\n" + strings.Repeat(" ", 0x10000) + "\r\n"
		return forever(w, "Transfer-Encoding: chunked\r\n\r\n", chunk)
	},
	"a huge length": func(w io.Writer) error {
		return forever(w, "Content-Length: 999999999999\r\n\r\n", strings.Repeat("x", 0x10000))
	},
	"deep JSON": func(w io.Writer) error {
		text := `{"jobs":[{"headers":` + strings.Repeat(`{"a":`, 100_000)
		_, err := fmt.Fprintf(w, "Content-Length: %d\r\n\r\n%s", len(text), text)
		return err
	},
	"a million keys": func(w io.Writer) error {
		text := `{"jobs":[{"queue":"q","headers":{` + millionKeys() + `}}],"x":1}`
		_, err := fmt.Fprintf(w, "Content-Length: %d\r\n\r\n%s", len(text), text)
		return err
	},
}

var millionKeys = sync.OnceValue(func() string {
	var b strings.Builder
	for i := range 1_000_000 {
		fmt.Fprintf(&b, `"%x":"",`, i)
	}
	return strings.TrimSuffix(b.String(), ",")
})

// forever writes until the connection is closed.
func forever(w io.Writer, begin, more string) error {
	_, err := io.WriteString(w, begin)
	for err == nil {
		_, err = io.WriteString(w, more)
	}
	return err
}

// TestHostileBodiesTakeLittleMemory sends a hundred concurrent requests that never end or are too
// large (fault R3). They are refused, and the process grows by a bounded amount.
func TestHostileBodiesTakeLittleMemory(t *testing.T) {
	t.Parallel()
	const most = 64 << 20
	s := serve(t, onFile(t))
	millionKeys() // takes longer under the race detector than a request's head may take
	for range 3 { // normal load first allocates its memory
		body := `{"jobs":[{"queue":"q","body":"` + strings.Repeat("x", 900<<10) + `"}]}`
		if status, answer, _ := s.call("POST", s.url+"/v1/default/push", body); status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
	}
	grew := s.growth(t)
	var all sync.WaitGroup
	for range counts(5, 25) {
		for what, write := range hostile {
			all.Go(func() {
				if status := s.hostile(t, write); status != 413 && status != 400 {
					t.Errorf("%s returned %d", what, status)
				}
			})
		}
	}
	all.Wait()
	grown := grew()
	t.Logf("%d concurrent requests: the process grew by %.1f MiB (at most %d)", 4*counts(5, 25), float64(grown)/(1<<20),
		most>>20)
	if grown > most && !testing.Short() {
		t.Errorf("the process grew by %d bytes", grown)
	}
	if status, answer, _ := s.call("POST", s.url+"/v1/default/push", `{"jobs":[{"queue":"q"}]}`); status != 200 {
		t.Errorf("afterwards: %d %s", status, answer)
	}
}

// growth measures the memory of the process. The returned function ends the measurement and
// returns the largest growth.
func (s *served) growth(t *testing.T) func() int64 {
	before := s.memory(t)
	peak, stop := before, make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				peak = max(peak, s.memory(t))
			case <-stop:
				return
			}
		}
	})
	return func() int64 {
		close(stop)
		watching.Wait()
		return peak - before
	}
}

// hostile sends a request that begins like a push.
func (s *served) hostile(t *testing.T, write func(io.Writer) error) (status int) {
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/default/push HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n", s.token)
	var sending sync.WaitGroup
	sending.Go(func() { _ = write(conn) })
	defer sending.Wait()
	defer conn.Close()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// retryAfter returns the Retry-After header in seconds, or 0 if there is none.
func retryAfter(h http.Header) int {
	n, _ := strconv.Atoi(h.Get("Retry-After"))
	return n
}

// TestNoisyNamespaceDisturbsNoOther has a namespace that sends ten times as many calls as its
// token allows (fault R7). Each refusal says when to retry, and other namespaces are served as usual.
func TestNoisyNamespaceDisturbsNoOther(t *testing.T) {
	t.Parallel()
	const limit = 50
	s := serve(t, onFile(t))
	status, made, _ := s.call("POST", s.admin+"/admin/tokens",
		fmt.Sprintf(`{"namespace":"noisy","rights":["produce"],"limits":{"produce":%d,"per":"1h"}}`, limit))
	_, rest, _ := strings.Cut(made, `"token":"`)
	token, _, found := strings.Cut(rest, `"`)
	if status != 201 || !found {
		t.Fatalf("%d %s", status, made)
	}
	spell := time.Duration(counts(1, 20)) * time.Second
	idle := s.probe("/v1/quiet/push", s.token)
	idle.await(t, counts(100, 1000))
	before := idle.p99()
	quiet := s.probe("/v1/quiet/push", s.token)
	var done, refused atomic.Int64
	var all sync.WaitGroup
	end := time.Now().Add(spell)
	for range 8 {
		all.Go(func() {
			client := http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for time.Now().Before(end) || done.Load()+refused.Load() < 10*limit {
				req, _ := http.NewRequest("POST", s.url+"/v1/noisy/push", strings.NewReader(`{"jobs":[{"queue":"q"}]}`))
				req.Header.Set("Authorization", "Bearer "+token)
				resp, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				switch {
				case resp.StatusCode == 200:
					done.Add(1)
				case resp.StatusCode == 429 && retryAfter(resp.Header) > 0 && retryAfter(resp.Header) <= 3600:
					refused.Add(1)
				default:
					t.Errorf("%d %v", resp.StatusCode, resp.Header)
					return
				}
				time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond) // limits its rate
			}
		})
	}
	all.Wait()
	after := quiet.p99()
	t.Logf("in %s %d calls of the noisy namespace were served and %d refused; a quiet push: p99 %s meanwhile, %s "+
		"alone (at most 3 times)", spell, done.Load(), refused.Load(), after, before)
	if done.Load() != limit {
		t.Errorf("%d calls were served, want %d", done.Load(), limit)
	}
	if proctest.Long() && after > 30*before { // ten times the promise
		t.Errorf("a quiet push took %s, %s alone", after, before)
	}
}
