package workscript

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// run runs the script for a job with a header "to", and returns its exit status.
func run(t *testing.T, to string) (status int, said string) {
	t.Helper()
	for _, tool := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("there is no " + tool)
		}
	}

	cmd := exec.CommandContext(t.Context(), "sh", "deliver.sh")
	cmd.Stdin = strings.NewReader(`{"paid":17}`)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "NO_PROXY=*",
		"DULY_JOB_QUEUE=hooks", "DULY_JOB_ID=j1", "DULY_JOB_ATTEMPT=2", "DULY_JOB_TRIES=5",
	}
	if to != "" {
		cmd.Env = append(cmd.Env, "DULY_JOB_HEADER_TO="+to)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stderr.String()
}

// C15.14: 0 acks the job, and any other status than 75 is a failed try.
func TestDeliverPostsTheBody(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 2)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- r.Method + " " + string(body)
		if r.URL.Path == "/broken" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(hook.Close)

	status, said := run(t, hook.URL)
	if status != 0 || !strings.Contains(said, "hooks/j1: try 2 of 5") {
		t.Errorf("it ends with status %d and says %q", status, said)
	}
	if got := <-bodies; got != `POST {"paid":17}` {
		t.Errorf("the hook received %q", got)
	}

	status, said = run(t, hook.URL+"/broken")
	if status == 0 || status == 75 || !strings.Contains(said, "500") {
		t.Errorf("of a broken hook: status %d, says %q", status, said)
	}
}

// C15.14: 75 gives the job back without using a try.
func TestDeliverSnoozesWhileNobodyListens(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	if status, said := run(t, "http://"+address); status != 75 {
		t.Errorf("it ends with status %d and says %q", status, said)
	}
}

func TestDeliverNeedsAnAddress(t *testing.T) {
	t.Parallel()
	if status, said := run(t, ""); status == 0 || status == 75 || !strings.Contains(said, `the job has no header "to"`) {
		t.Errorf("it ends with status %d and says %q", status, said)
	}
}
