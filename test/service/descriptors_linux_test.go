package service

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
)

// descriptorLimit is the number of files and connections that the server may have open.
const descriptorLimit = 64

// TestServerWithoutDescriptorsRecovers takes all file descriptors of a server (fault D11). Existing
// connections still get answers, which may be errors. Nothing that was answered is lost, and the
// same process accepts new connections once descriptors are free.
//
// C9.1, C13.11
func TestServerWithoutDescriptorsRecovers(t *testing.T) {
	t.Parallel()
	limited := proctest.Options{Before: []string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$@"`, descriptorLimit),
		"sh"}}
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		d := &descriptors{served: serveAs(t, limited, onFile(t)), T: t, pushed: map[string]bool{}}
		d.run(func() { // a backup needs a file descriptor
			if status, _ := d.ask("POST", d.admin+"/admin/backup", ""); status != http.StatusServiceUnavailable {
				d.Errorf("a backup without a free descriptor returned %d", status)
			}
		})
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		redis := redistest.Single(t)
		d := &descriptors{served: serveAs(t, limited, redis.URL()+"?retry=100ms"), T: t, pushed: map[string]bool{}}
		d.run(func() { redis.Must("CLIENT", "KILL", "TYPE", "normal") })
	})
}

// descriptors is a server with few descriptors, and the results of its clients.
type descriptors struct {
	*served
	*testing.T
	known    *http.Client // has open connections to the server
	taken    []net.Conn   // use up the server's descriptors
	mu       sync.Mutex
	pushed   map[string]bool // by job ID: whether the push was answered
	answers  map[int]int     // number of answers by status, while there was no free descriptor
	attempts int
}

// run repeatedly takes all descriptors and frees them. It calls harm while there are none.
func (d *descriptors) run(harm func()) {
	const clients = 4
	for range counts(1, 100) {
		d.answers = map[int]int{}
		d.known = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients, MaxConnsPerHost: clients}}
		d.atOnce(clients, d.mustPush) // gives each client a connection
		d.ask("GET", d.admin+"/readyz", "")
		d.exhaust()
		harm()
		d.atOnce(clients, d.work)

		for _, c := range d.taken {
			c.Close()
		}
		d.taken = nil
		d.known.CloseIdleConnections()
		d.known = &http.Client{Transport: &http.Transport{}}
		eventually.True(d, "a push over a new connection", func() bool { return d.push("x") == http.StatusOK })
		d.known.CloseIdleConnections()
		d.conclude()
	}
}

func (d *descriptors) atOnce(n int, f func()) {
	var all sync.WaitGroup
	for range n {
		all.Go(f)
	}
	all.Wait()
}

// exhaust opens connections until the server has no free descriptor, and then more that it can't
// accept.
func (d *descriptors) exhaust() {
	d.Helper()
	for range 2 * descriptorLimit {
		c, err := net.Dial("tcp", d.address)
		if err != nil {
			d.Fatal(err)
		}
		d.taken = append(d.taken, c)
	}
	eventually.True(d, "the server has no descriptor left", func() bool {
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.process.Pid()))
		return err == nil && len(open) >= descriptorLimit
	})
}

// work makes calls that need descriptors and calls that do not. A long log starts a checkpoint,
// which needs another connection to the file.
func (d *descriptors) work() {
	for range 8 {
		d.note(d.push(strings.Repeat("x", 400_000)))
		for _, path := range []string{"/queues/q/jobs?state=ready", "/queues?stats=true", "/queues/q"} {
			status, _ := d.ask("GET", d.api()+path, "")
			d.note(status)
		}
	}
}

func (d *descriptors) api() string { return d.url + "/v1/default" }

func (d *descriptors) note(status int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers[status]++
}

// push pushes one job and returns the status of the answer.
func (d *descriptors) push(body string) int {
	d.Helper()
	d.mu.Lock()
	d.attempts++
	id := fmt.Sprint("job-", d.attempts)
	d.mu.Unlock()
	status, answer := d.ask("POST", d.api()+"/push", fmt.Sprintf(`{"jobs":[{"queue":"q","id":%q,"body":%q}]}`, id, body))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pushed[id] = status == http.StatusOK && strings.Contains(answer, `"outcome":"created"`)
	if status == http.StatusOK && !d.pushed[id] { // the job's own error
		status = http.StatusServiceUnavailable
		if !strings.Contains(answer, `"unavailable"`) {
			d.Errorf("a push without a free descriptor: %.300s", answer)
		}
	}
	return status
}

func (d *descriptors) mustPush() {
	d.Helper()
	if status := d.push("x"); status != http.StatusOK {
		d.Errorf("a push returned %d", status)
	}
}

// ask sends a request over an existing connection. The answer must be a success, or an error
// whose code allows a retry.
func (d *descriptors) ask(method, url, body string) (status int, answer string) {
	d.Helper()
	req, err := http.NewRequestWithContext(d.Context(), method, url, strings.NewReader(body))
	if err != nil {
		d.Error(err)
		return 0, ""
	}
	req.Header.Set("Authorization", "Bearer "+d.token)
	status, answer, err = d.do(req)
	if err != nil {
		d.Errorf("%s %s: %v", method, url, err)
		return 0, ""
	}

	var problem struct{ Code string }
	switch {
	case status == http.StatusOK:
	case json.Unmarshal([]byte(answer), &problem) != nil || problem.Code != "unavailable":
		d.Errorf("%s %s: %d %.300s", method, url, status, answer)
	}
	return status, answer
}

func (d *descriptors) do(req *http.Request) (status int, answer string, err error) {
	resp, err := d.known.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// conclude checks that every job whose push was answered is stored, and that the store has no
// fault. It empties the store for the next round.
func (d *descriptors) conclude() {
	d.Helper()
	there := map[string]bool{}
	for cursor := ""; ; {
		p, _ := d.next(d.T, "/queues/q/jobs?state=ready&limit=1000", cursor)
		for _, j := range p.Jobs {
			there[j.ID] = true
		}
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	answered := 0
	for id, yes := range d.pushed {
		if !yes {
			continue
		}
		if answered++; !there[id] {
			d.Errorf("job %s is lost, although its push was answered", id)
		}
	}
	status, report, _ := d.call("POST", d.admin+"/admin/check", "")
	if status != http.StatusOK || !strings.Contains(report, `"faults":[]`) {
		d.Errorf("the check returned %d %.500s", status, report)
	}
	d.mustCall(d.T, "POST", "/queues/q/purge", `{"state":"ready"}`)
	d.Logf("without a free descriptor: answers %v; %d of %d pushes were answered", d.answers, answered, len(d.pushed))
	clear(d.pushed)
}
