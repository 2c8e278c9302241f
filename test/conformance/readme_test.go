package conformance_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/server"
	"github.com/dulymq/duly/worker"
)

// Order is the body of the jobs in the README's program.
type Order struct{ Number int }

// program returns the README's program for any URL. TestReadmeProgram compares its text with the page.
func program(ctx context.Context, url string, closeOrder func(context.Context, *worker.Job[Order]) error) error {
	engine, err := open.Engine(ctx, url)
	if err != nil {
		return err
	}
	defer engine.Close()
	jobs := duly.NewClient(engine, duly.ClientConfig{})
	if _, err := jobs.PushJSON(ctx, "orders", Order{17}, duly.ID("close-17"), duly.Delay(30*time.Minute)); err != nil {
		return err
	}
	w := worker.New(engine, worker.Config{Concurrency: 64})
	w.Handle("orders", worker.JSON(closeOrder)) // closeOrder(ctx, *worker.Job[Order]) returns nil to ack, an error to retry
	return w.Run(ctx)                           // until ctx ends; running handlers may finish
}

// readmeBlock returns the README's Go program with the URL as a variable.
func readmeBlock(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n```go\n")
	block, _, found := strings.Cut(rest, "\n```\n")
	if !found {
		t.Fatal("README.md has no Go program")
	}
	return strings.Replace(block, `"sqlite:jobs.db") // or redis://HOST, or http://TOKEN@HOST/NAMESPACE`, "url)", 1)
}

// TestReadmeProgram runs the README's program on every engine, also with a URL that names another
// namespace than the default (C2.5, C11.6, C11.34).
func TestReadmeProgram(t *testing.T) {
	t.Parallel()
	t.Run("ProgramIsTheReadmes", func(t *testing.T) {
		t.Parallel()
		source, err := os.ReadFile("readme_test.go")
		if err != nil {
			t.Fatal(err)
		}
		if unindented := strings.ReplaceAll(string(source), "\n\t", "\n"); !strings.Contains(unindented, readmeBlock(t)) {
			t.Errorf("the function program differs from the page, which says\n%s", readmeBlock(t))
		}
	})
	for name, url := range map[string]func(*testing.T) string{"SQLite": sqliteURL, "Redis": redisURL, "HTTP": shopURL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runProgram(t, url(t))
		})
	}
}

func sqliteURL(t *testing.T) string { return "sqlite:" + t.TempDir() + "/jobs.db" }

func redisURL(t *testing.T) string {
	s, prefix := redistest.Shared(t)
	return s.URL() + "?prefix=" + prefix
}

// shopURL returns the URL of a server with a token for the namespace shop only.
func shopURL(t *testing.T) string {
	store := model.New(model.Config{})
	s, err := server.New(server.Config{
		Engine: store, Store: server.Store{Registry: store}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	secret, _, err := s.Guard().Create(t.Context(), contract.Token{Namespace: "shop",
		Rights: contract.RightProduce | contract.RightConsume})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() { web.Close(); store.Close() })
	return strings.Replace(web.URL, "http://", "http://"+secret+"@", 1) + "/shop"
}

// runProgram runs the program until it has handled an order that was pushed before. It also
// checks the job that the program pushes.
func runProgram(t *testing.T, url string) {
	push(t, url, Order{3})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	closed := 0
	err := program(ctx, url, func(_ context.Context, job *worker.Job[Order]) error {
		closed = job.Value.Number
		stop()
		return nil
	})
	if err != nil || closed != 3 {
		t.Fatalf("order %d was closed, the program ended with %v", closed, err)
	}

	engine := reopen(t, url)
	defer engine.Close()
	info, err := engine.Get(t.Context(), duly.NewClient(engine, duly.ClientConfig{}).Queue("orders"), "close-17")
	if err != nil || info.State != duly.StateDelayed {
		t.Errorf("the job close-17 is %s, %v", info.State, err)
	}
}

func push(t *testing.T, url string, o Order) {
	t.Helper()
	engine := reopen(t, url)
	defer engine.Close()
	if _, err := duly.NewClient(engine, duly.ClientConfig{}).PushJSON(t.Context(), "orders", o); err != nil {
		t.Fatal(err)
	}
}

func reopen(t *testing.T, url string) contract.Engine {
	t.Helper()
	engine, err := open.Engine(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}
