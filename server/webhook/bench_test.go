package webhook

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/webhook/gate"
	"github.com/dulymq/duly/server/webhook/guard"
	"github.com/dulymq/duly/server/webhook/seal"
	"github.com/dulymq/duly/server/webhook/sign"
)

// BenchmarkSend compares signed tries with a bare POST loop, to one receiver on
// this machine, with as many requests in flight as a new gate admits.
func BenchmarkSend(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer s.Close()
	u, err := url.Parse(s.URL)
	if err != nil {
		b.Fatal(err)
	}
	body := bytes.Repeat([]byte("x"), 1024)

	b.Run("bare", func(b *testing.B) {
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}}
		defer client.CloseIdleConnections()
		b.SetParallelism(max(gate.StartLimit/runtime.GOMAXPROCS(0), 1))
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				resp, err := client.Post(s.URL, "application/octet-stream", bytes.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	})
	for name, versions := range map[string]sign.Versions{"v1": {V1: true}, "v1a": {V1a: true}} {
		b.Run(name, func(b *testing.B) {
			g, err := guard.New(guard.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
			if err != nil {
				b.Fatal(err)
			}
			ring, err := seal.Parse(seal.NewKey())
			if err != nil {
				b.Fatal(err)
			}
			signer, _, err := sign.NewSet(ring, "shop", "", sign.NewPair()).Signer(ring, versions, time.Now())
			if err != nil {
				b.Fatal(err)
			}
			sender := &Sender{Version: "1", Clock: clock.System(), Gates: gate.New(gate.Config{})}
			transport := g.NewTransport(nil)
			defer transport.Close()
			to := &Destination{URL: u, Signer: signer, Transport: transport}
			b.SetParallelism(max(gate.StartLimit/runtime.GOMAXPROCS(0), 1))
			b.ReportAllocs()
			var held atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					for sender.Send(b.Context(), job(string(body), nil), to).As != duly.Ack {
						held.Add(1)
						clock.Sleep(b.Context(), clock.System(), time.Millisecond)
					}
				}
			})
			b.ReportMetric(float64(held.Load())/float64(b.N), "held/op")
		})
	}
}
