package httpengine_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/wire"
)

// inAdmin runs a test with an [httpengine.Admin].
func inAdmin(t *testing.T, serve http.HandlerFunc, test func(t *testing.T, a *httpengine.Admin, r *rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, httpengine.Config{}, serve)
		network := &http.Transport{DialContext: r.listener.Dial}
		t.Cleanup(network.CloseIdleConnections)
		a, err := httpengine.OpenAdmin(context.Background(),
			httpengine.AdminConfig{URL: "http://" + token + "@duly.test", Client: &http.Client{Transport: network}})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		test(t, a, r)
	})
}

func ndjson(lines ...wire.CheckLine) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		for _, l := range lines {
			_, _ = w.Write(wire.AppendCheckLine(nil, l))
		}
	}
}

// C14.28: a check reports its progress, and then returns its report.
func TestCheckReportsProgressAndReport(t *testing.T) {
	report := contract.CheckReport{Jobs: 7, Messages: 3, Repaired: 1,
		Faults: []contract.Fault{{Kind: "lost", Queue: duly.Q("q"), ID: "x", Detail: "d", Repaired: true}}}
	serve := ndjson(wire.CheckLine{Done: 1, Total: 7}, wire.CheckLine{Done: 6, Total: 7},
		wire.CheckLine{Report: &report})
	inAdmin(t, serve, func(t *testing.T, a *httpengine.Admin, r *rig) {
		var told []int64
		got, err := a.Check(t.Context(),
			contract.CheckParams{Repair: true, Progress: func(done, total int64) { told = append(told, done, total) }})
		if err != nil || got.Jobs != 7 || got.Messages != 3 || got.Repaired != 1 || len(got.Faults) != 1 ||
			got.Faults[0] != report.Faults[0] {
			t.Errorf("the report is %+v, %v", got, err)
		}
		if len(told) != 4 || told[0] != 1 || told[2] != 6 || told[3] != 7 {
			t.Errorf("the progress is %v", told)
		}
		if s := r.requests()[0]; s.line != "POST /admin/check" || s.body != `{"repair":true}` ||
			s.auth != "Bearer "+token {
			t.Errorf("it was asked by %+v", s)
		}
	})
}

func TestCheckThatEndsEarlyIsNoReport(t *testing.T) {
	for name, tt := range map[string]struct {
		serve http.HandlerFunc
		code  duly.Code
	}{
		"without a report": {ndjson(wire.CheckLine{Done: 1, Total: 7}), duly.CodeUnavailable},
		"with an error": {ndjson(wire.CheckLine{Done: 1, Total: 7}, wire.CheckLine{Err: duly.ErrCorrupt}),
			duly.CodeCorrupt},
		"with a problem": {func(w http.ResponseWriter, _ *http.Request) { problem(w, duly.ErrForbidden) },
			duly.CodeForbidden},
		"as a web page": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
			duly.CodeUnavailable},
		"in the middle of a line": {cut("HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n" +
			"Transfer-Encoding: chunked\r\n\r\n6\r\n{\"done\r\n"),
			duly.CodeUnavailable},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			inAdmin(t, tt.serve, func(t *testing.T, a *httpengine.Admin, _ *rig) {
				report, err := a.Check(t.Context(), contract.CheckParams{})
				wants(t, "a check that ends "+name, err, tt.code)
				if report.Jobs != 0 {
					t.Errorf("it has the report %+v", report)
				}
			})
		})
	}
}

// C14.32: Backup writes the file of the answer. An incomplete answer is an error.
func TestBackupIsWholeOrAnError(t *testing.T) {
	copied := strings.Repeat("duly", 100_000)
	whole := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = io.WriteString(w, copied)
	}
	half := cut("HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
		"4\r\nduly\r\n")

	t.Run("Whole", func(t *testing.T) {
		inAdmin(t, whole, func(t *testing.T, a *httpengine.Admin, _ *rig) {
			var b strings.Builder
			if err := a.Backup(t.Context(), &b); err != nil || b.String() != copied {
				t.Errorf("the copy has %d bytes, %v", b.Len(), err)
			}
		})
	})

	t.Run("Half", func(t *testing.T) {
		inAdmin(t, half, func(t *testing.T, a *httpengine.Admin, _ *rig) {
			wants(t, "half a copy", a.Backup(t.Context(), io.Discard), duly.CodeUnavailable)
		})
	})
	t.Run("OntoAFullDisk", func(t *testing.T) {
		inAdmin(t, whole, func(t *testing.T, a *httpengine.Admin, _ *rig) {
			if err := a.Backup(t.Context(), fullDisk{}); !errors.Is(err, errDisk) {
				t.Errorf("the error is %v, want the writer's own", err)
			}
		})
	})

	t.Run("Unsupported", func(t *testing.T) {
		inAdmin(t, func(w http.ResponseWriter, _ *http.Request) { problem(w, duly.ErrUnsupported) },
			func(t *testing.T, a *httpengine.Admin, _ *rig) {
				wants(t, "no backup", a.Backup(t.Context(), io.Discard), duly.CodeUnsupported)
			})
	})
}

var errDisk = errors.New("the disk is full")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errDisk }

// C14.29, C14.31: the client creates a token and lists namespaces by the admin routes.
func TestAdminCreatesTokensAndListsNamespaces(t *testing.T) {
	serve := func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/admin/tokens" {
			reply(w, 201, `{"token":"duly_new","namespace":"shop","rights":["produce"],`+
				`"created_at":"2030-01-01T00:00:00.000Z"}`)
			return
		}
		reply(w, 200, string(wire.AppendNames(nil, "namespaces", duly.NamePage{Names: []string{"a", "b"}, Next: "b"})))
	}

	inAdmin(t, serve, func(t *testing.T, a *httpengine.Admin, r *rig) {
		secret, err := a.CreateToken(t.Context(),
			contract.Token{Namespace: "shop", Rights: contract.RightProduce, Description: "web"})
		if secret != "duly_new" || err != nil {
			t.Errorf("the token is %q, %v", secret, err)
		}
		page, err := a.Namespaces(t.Context(), duly.PageParams{Cursor: "x", Limit: 2})
		if err != nil || len(page.Names) != 2 || page.Next != "b" {
			t.Errorf("the namespaces are %+v, %v", page, err)
		}
		asked := r.requests()
		if asked[0].body != `{"namespace":"shop","rights":["produce"],"description":"web"}` ||
			asked[1].line != "GET /admin/namespaces?cursor=x&limit=2" {
			t.Errorf("it was asked %+v", asked)
		}
	})
}

// C14.56: the client creates a login code and returns the path of its page.
func TestAdminCreatesLoginCodes(t *testing.T) {
	answer := `{"path":"/ui/login?code=X","expires_at":"2030-01-01T00:01:00.000Z"}`
	serve := func(w http.ResponseWriter, _ *http.Request) { reply(w, 201, answer) }
	t.Run("Path", func(t *testing.T) {
		inAdmin(t, serve, func(t *testing.T, a *httpengine.Admin, r *rig) {
			path, err := a.CreateLoginCode(t.Context())
			if path != "/ui/login?code=X" || err != nil {
				t.Errorf("the path is %q, %v", path, err)
			}
			if asked := r.requests(); asked[0].line != "POST /admin/login-codes" {
				t.Errorf("it was asked %+v", asked)
			}
		})
	})

	elsewhere := func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 201, strings.Replace(answer, "/ui", "https://evil.example/ui", 1))
	}
	t.Run("Elsewhere", func(t *testing.T) {
		inAdmin(t, elsewhere, func(t *testing.T, a *httpengine.Admin, _ *rig) {
			if path, err := a.CreateLoginCode(t.Context()); err == nil {
				t.Errorf("a path on another host is %q", path)
			}
		})
	})
}

// C14.30, C14.35: tokens are listed, limited and revoked by their hashes.
func TestTokensOfAServerAreListedLimitedAndRevoked(t *testing.T) {
	one := contract.Token{Hash: [32]byte{1, 31: 2}, Namespace: "shop", Rights: contract.RightProduce,
		Limits: contract.Limits{Produce: 5, Per: time.Minute}}
	serve := func(w http.ResponseWriter, req *http.Request) {
		switch {
		case req.Method == "GET":
			reply(w, 200, string(wire.TokensForm.Append(nil,
				contract.TokenPage{Tokens: []contract.Token{one}, Next: "c"})))
		case strings.HasSuffix(req.URL.Path, "9"):
			problem(w, duly.ErrNotFound)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}

	inAdmin(t, serve, func(t *testing.T, a *httpengine.Admin, r *rig) {
		page, err := a.Tokens(t.Context(), "shop", duly.PageParams{Cursor: "b", Limit: 7})
		if err != nil || len(page.Tokens) != 1 || page.Tokens[0] != one || page.Next != "c" {
			t.Errorf("the tokens are %+v, %v", page, err)
		}
		if _, err := a.Tokens(t.Context(), "", duly.PageParams{}); err != nil {
			t.Error(err)
		}
		if err := a.LimitToken(t.Context(), one.Hash, contract.Limits{Consume: 3, Per: time.Hour}); err != nil {
			t.Error(err)
		}
		if err := a.DeleteToken(t.Context(), one.Hash); err != nil {
			t.Error(err)
		}
		wants(t, "one that is gone", a.DeleteToken(t.Context(), [32]byte{31: 9}), duly.CodeNotFound)
		_, err = a.Tokens(t.Context(), "", duly.PageParams{Limit: -1})
		wants(t, "a bad page", err, duly.CodeInvalid)
		id := "01" + strings.Repeat("00", 30) + "02"
		want := []string{"GET /admin/tokens?cursor=b&limit=7&namespace=shop ", "GET /admin/tokens?limit=100 ",
			`PATCH /admin/tokens/` + id + ` {"limits":{"consume":3,"per":"1h"}}`, "DELETE /admin/tokens/" + id + " "}
		for i, s := range r.requests()[:4] {
			if got := s.line + " " + s.body; got != want[i] {
				t.Errorf("it was asked %q, want %q", got, want[i])
			}
		}
	})
}

func TestAnswerWithoutASecretIsAnError(t *testing.T) {
	inAdmin(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, 201, `{"namespace":"shop"}`) },
		func(t *testing.T, a *httpengine.Admin, _ *rig) {
			_, err := a.CreateToken(t.Context(), contract.Token{Namespace: "shop", Rights: contract.RightProduce})
			wants(t, "a token without a secret", err, duly.CodeInternal)
		})
}

func TestMovesOfOneNamespaceNeedOneAnswer(t *testing.T) {
	inAdmin(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, string(wire.MovesForm.Append(nil, nil))) },
		func(t *testing.T, a *httpengine.Admin, r *rig) {
			if moves, err := a.Moves(t.Context(), ""); len(moves) > 0 || err != nil {
				t.Errorf("%+v, %v", moves, err)
			}
			_, err := a.Moves(t.Context(), "shop")
			wants(t, "no place at all", err, duly.CodeInternal)
			var asked []string
			for _, s := range r.requests() {
				asked = append(asked, s.line)
			}
			if got, want := strings.Join(asked, ", "),
				"GET /admin/moves, GET /admin/moves?namespace=shop"; got != want {
				t.Errorf("it was asked %s, want %s", got, want)
			}
			if err != nil && !strings.Contains(err.Error(), "duly.test") {
				t.Errorf("%v does not say who has answered", err)
			}
		})
}
