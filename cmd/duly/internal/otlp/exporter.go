package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/dulymq/duly/internal/clock"
)

// Exporter sends spans to a collector. It implements the SDK's SpanExporter.
type Exporter struct{ cfg Config }

var _ sdk.SpanExporter = (*Exporter)(nil)

// New returns an Exporter. It connects when it exports the first spans.
func New(cfg Config) *Exporter {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.Client == nil {
		// A redirect could send the headers, which hold secrets, to another host.
		cfg.Client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}
	}
	return &Exporter{cfg}
}

// The attempts to send a batch of spans, and the pause after the first attempt. The
// pause doubles after each further attempt.
const (
	tries      = 3
	firstPause = time.Second
)

// ExportSpans implements the SDK's SpanExporter.
func (e *Exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	body, err := json.Marshal(encode(spans))
	if err != nil {
		return err
	}

	pause := firstPause
	for try := 1; ; try++ {
		retry, err := e.send(ctx, body)
		// Sleep fails if the context has ended, for example during a shutdown.
		if err == nil || !retry || try == tries || clock.Sleep(ctx, clock.System(), pause) != nil {
			return err
		}
		pause *= 2
	}
}

// Shutdown implements the SDK's SpanExporter.
func (e *Exporter) Shutdown(context.Context) error {
	e.cfg.Client.CloseIdleConnections()
	return nil
}

// send makes one request. It reports whether a retry may succeed.
func (e *Exporter) send(ctx context.Context, body []byte) (retry bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Timeout)
	defer cancel()

	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.cfg.URL, bytes.NewReader(body))
	if err != nil {
		// The text of the parser's error has the address, which may hold a secret.
		return false, errors.New("otlp: the collector's address is not a URL")
	}
	for name, values := range e.cfg.Header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")

	resp, err := e.cfg.Client.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // the text of this error contains no address
		}
		return true, fmt.Errorf("otlp: cannot reach the collector: %w", err)
	}
	defer resp.Body.Close()

	// The connection can be reused only after the body has been read.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode/100 == 2 {
		return false, nil
	}
	return retryable(resp.StatusCode), fmt.Errorf("otlp: the collector answered %d", resp.StatusCode)
}

// retryable reports whether OTLP allows a retry after a status.
func retryable(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		return true
	}
	return false
}
