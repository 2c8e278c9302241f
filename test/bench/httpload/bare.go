package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// The bodies of duly's responses to a push, a publish and a consume of 100 bytes, with the same
// lengths.
var (
	barePush    = []byte(`{"results":[{"id":"01J0000000000000000000000A","outcome":"created"}]}`)
	barePublish = []byte(`{"job_id":"01J0000000000000000000000A","msg":"published"}`)
	bareConsume = []byte(`{"attributes":null,"data":"` + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x",
		100))) + `","elapsed_ms":1000,` +
		`"job_id":"01J0000000000000000000000A","msg":"new job","namespace":"default","queue":` +
		`"bench-http-01j0000000000000000000000a","remain_tries":15,"ttl":0}`)
)

// bare reads the request and sends a response. It stores nothing.
func bare(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header()["Content-Type"] = []string{"application/json; charset=utf-8"}
	status, body := http.StatusOK, bareConsume
	switch r.Method {
	case http.MethodPost:
		body = barePush
	case http.MethodPut:
		status, body = http.StatusCreated, barePublish
	case http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// serveBare serves bare until ctx ends.
func serveBare(ctx context.Context, addr string, out io.Writer) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "http://%s\n", l.Addr())
	s := http.Server{Handler: http.HandlerFunc(bare)}
	defer context.AfterFunc(ctx, func() { s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
