package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/server"
)

// serve runs a server until the test ends. It returns its URL with a token, its admin address and the token.
func serve(t *testing.T) (api, admin, token string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	log := slog.New(slog.DiscardHandler)
	e, err := open.Engine(ctx, "sqlite:"+filepath.Join(t.TempDir(), "duly.db"), open.Log(log))
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Config{
		Engine: e, Store: server.StoreOf(e), Logger: log, UI: &server.UIConfig{},
		Listen: server.Listen{Addr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0"},
	})
	if err == nil {
		err = s.Listen(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	token, _, err = s.Guard().Create(ctx, contract.Token{Namespace: contract.AllNamespaces, Rights: contract.RightAdmin})
	if err != nil {
		t.Fatal(err)
	}

	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		e.Close()
	})
	return strings.Replace(s.URL(), "http://", "http://"+token+"@", 1) + "/" + duly.DefaultNamespace, s.AdminURL(), token
}

func TestWorksPrintTheirFigures(t *testing.T) {
	t.Parallel()
	api, admin, token := serve(t)
	o, err := parse([]string{
		"-work", "pages,list,groups,find", "-rounds", "1", "-queues", "20", "-jobs", "1000", "-dead", "80", "-time", "10ms", api, admin,
	})
	if err != nil {
		t.Fatal(err)
	}
	o.interval = 0
	var out bytes.Buffer
	if err := o.run(t.Context(), token, &out); err != nil {
		t.Fatal(err)
	}

	const figure = `\d+\.\d ms`
	for _, want := range []string{
		`overview, 20 queues +first byte FIGURE with a look, p50 FIGURE, p95 FIGURE, \d+\.\d KB`,
		`job +first byte`,
		`list of 1000 jobs +page 1 FIGURE, page 10 FIGURE: \d+\.\d\d`,
		`groups of 80 dead jobs +40 groups, first view FIGURE in \d+ requests, later FIGURE`,
		`push during the first view +p99 FIGURE, alone FIGURE: \d+\.\d\d`,
		`find an ID +p50 FIGURE`,
	} {
		if !regexp.MustCompile(strings.ReplaceAll(want, "FIGURE", figure)).Match(out.Bytes()) {
			t.Errorf("no line matches %q in:\n%s", want, &out)
		}
	}
}

func TestViewersReceiveEvents(t *testing.T) {
	t.Parallel()
	api, admin, token := serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	o, err := parse([]string{"-work", "viewers", "-viewers", "2", api, admin})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := o.run(ctx, token, &out); err != nil {
		t.Fatal(err)
	}
	var pages, events int
	_, err = fmt.Sscanf(out.String(), "%d open pages received %d events", &pages, &events)
	if err != nil || pages != 2 || events < 2 {
		t.Errorf("printed %q, want 2 open pages with events: %v", &out, err)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	const api, admin = "http://127.0.0.1:7777/default", "http://127.0.0.1:7778"
	for _, args := range [][]string{
		{}, {api}, {"-work", "paint", api, admin}, {"-viewers", "21", api, admin}, {"-rounds", "0", api, admin},
		{"-jobs", "10", api, admin}, {"default", admin},
	} {
		if _, err := parse(args); err == nil {
			t.Errorf("parse(%q) accepts its arguments", args)
		}
	}
}
