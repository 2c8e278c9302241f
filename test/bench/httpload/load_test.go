package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// server answers pushes with push, and counts the queues that are destroyed.
func server(t *testing.T, push http.HandlerFunc) (url string, destroyed *atomic.Int64) {
	t.Helper()
	destroyed = new(atomic.Int64)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/shop/push", push)
	mux.HandleFunc("DELETE /v1/shop/queues/{q}", func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.PathValue("q"), "bench-http-") || r.Header.Get("Authorization") != "Bearer s3cret" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		destroyed.Add(1)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL + "/shop", destroyed
}

func TestEveryAnsweredPushIsCounted(t *testing.T) {
	t.Parallel()
	for _, chunked := range []bool{false, true} {
		t.Run(fmt.Sprintf("chunked=%v", chunked), func(t *testing.T) {
			t.Parallel()
			var pushed atomic.Int64
			url, destroyed := server(t, func(w http.ResponseWriter, r *http.Request) {
				var in struct {
					Jobs []struct{ Queue, Body string }
				}
				if err := json.NewDecoder(r.Body).Decode(&in); err != nil || len(in.Jobs) != 1 || len(in.Jobs[0].Body) != 33 {
					t.Errorf("got %+v, %v", in, err)
				}
				pushed.Add(1)
				io.WriteString(w, `{"results":[{"id":"a",`)
				if chunked {
					w.(http.Flusher).Flush()
				}
				io.WriteString(w, `"outcome":"created"}]}`)
			})
			var out, errs bytes.Buffer
			if err := run(t.Context(), []string{"-connections", "3", "-time", "50ms", "-body", "33", "-json", url}, "s3cret",
				&out, &errs); err != nil {
				t.Fatal(err)
			}
			var r result
			if err := json.Unmarshal(out.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
			if r.Requests == 0 || r.Requests != pushed.Load() || r.Connections != 3 || r.PerSecond <= 0 || r.P99 < r.P50 {
				t.Errorf("%+v, the server counted %d", r, pushed.Load())
			}
			if destroyed.Load() != 1 || errs.Len() != 0 {
				t.Errorf("%d queues were destroyed; %s", destroyed.Load(), &errs)
			}
		})
	}
}

func TestResponseWithoutACreatedJobIsAnError(t *testing.T) {
	t.Parallel()
	for name, push := range map[string]http.HandlerFunc{
		"item error": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"results":[{"error":{"code":"full"}}]}`)
		},
		"unauthorized": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"hangs up":     func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, destroyed := server(t, push)
			err := run(t.Context(), []string{"-time", "10s", url}, "s3cret", io.Discard, io.Discard)
			if err == nil || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v", err)
			}
			if destroyed.Load() != 1 {
				t.Error("the queue was not destroyed")
			}
		})
	}
}

// TestEveryKindOfWorkRuns runs every kind of work against the bare server, whose responses look like
// duly's.
func TestEveryKindOfWorkRuns(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(bare))
	t.Cleanup(s.Close)
	for work := range works {
		var out, errs bytes.Buffer
		if err := run(t.Context(), []string{"-work", work, "-connections", "3", "-time", "50ms", "-json", s.URL}, "", &out,
			&errs); err != nil {
			t.Errorf("%s: %v", work, err)
			continue
		}
		var r result
		if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Requests < 3 || errs.Len() > 0 {
			t.Errorf("%s: %+v, %v, %s", work, r, err, &errs)
		}
	}
}

// TestEmptyQueueIsAnError takes from an empty queue, which measures nothing.
func TestEmptyQueueIsAnError(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		bare(w, r)
	}))
	t.Cleanup(s.Close)
	if err := run(t.Context(), []string{"-work", "take", "-time", "10s", s.URL}, "", io.Discard,
		io.Discard); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("got %v", err)
	}
}

func TestWarningNamesAQueueThatCanNotBeDestroyed(t *testing.T) {
	t.Parallel()
	url, _ := server(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w,
			`{"results":[{"outcome":"created"}]}`)
	})
	var errs bytes.Buffer
	if err := run(t.Context(), []string{"-time", "100ms", url}, "another", io.Discard, &errs); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(errs.String(), "bench-http-") {
		t.Errorf("standard error has %q", &errs)
	}
}

func TestBadCommandLineIsRefused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{}, {"a", "b"}, {"-work", "play", "http://host"}, {"https://host"}, {"host:1"},
		{"-connections", "0", "http://host"}, {"-time", "0s", "http://host"}, {"-body", "-1", "http://host"},
	} {
		if _, err := parse(args, "", io.Discard); err == nil {
			t.Errorf("the arguments %q were accepted", args)
		}
	}
	o, err := parse([]string{"http://t0ken@host:1"}, "other", io.Discard)
	if err != nil || o.token != "t0ken" || o.base.String() != "http://host:1/v1/default" {
		t.Errorf("got %+v, %v", o, err)
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 204 x\r\nContent-Length: 0\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffff\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a := answers{r: bufio.NewReader(bytes.NewReader(data))}
		for {
			_, body, err := a.next()
			if len(body) > maxAnswer {
				t.Fatalf("a body of %d bytes", len(body))
			}
			if err != nil {
				return
			}
		}
	})
}
