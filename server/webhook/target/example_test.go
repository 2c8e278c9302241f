package target_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/dulytest"
	"github.com/dulymq/duly/server/webhook/dispatch"
	"github.com/dulymq/duly/server/webhook/guard"
	"github.com/dulymq/duly/server/webhook/target"
)

// C16.14: a program sends the jobs of push queues itself, without a server.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	received := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println("received", r.Header.Get("duly-id"), "signed:", r.Header.Get("webhook-signature") != "")
		stop()
	}))
	defer received.Close()

	engine := dulytest.New(nil) // in a program, the engine of package open
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	keys, err := target.OpenKeys(filepath.Join(folder, "push.key"))
	if err != nil {
		log.Fatal(err)
	}
	g, err := guard.New(guard.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		log.Fatal(err)
	}

	resolver := target.NewResolver(target.NewStore(engine, keys, g, nil), engine)
	defer resolver.Close()
	d := dispatch.New(dispatch.Config{
		Engine: engine, Queues: dispatch.QueuesOf(engine, engine, nil, resolver.Refresh), Resolver: resolver,
		Log: slog.New(slog.DiscardHandler),
	})
	jobs := []duly.Job{{Queue: "orders", ID: "order-7", Body: []byte("paid"), Callback: received.URL}}
	if _, err := engine.Push(ctx, jobs); err != nil {
		log.Fatal(err)
	}
	if err := d.Run(ctx); err != nil {
		log.Fatal(err)
	}

	// Output:
	// received order-7 signed: true
}
