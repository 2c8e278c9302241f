package otlp

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly"
)

// Config says where spans are sent.
type Config struct {
	// URL is that of the collector's traces: http://localhost:4318/v1/traces.
	URL string
	// Header is sent with every request.
	Header http.Header
	// Timeout bounds one request. Default 10 s.
	Timeout time.Duration
	// Client sends the requests. Default: one of its own.
	Client *http.Client
}

// The standard variables, of which those for traces alone win.
const (
	endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	traces   = "OTEL_EXPORTER_OTLP_TRACES_"
	all      = "OTEL_EXPORTER_OTLP_"
)

// FromEnv reads the variables; nil where they name no collector, or say that
// there are to be no traces. It answers [duly.ErrInvalid] for what it can't read.
func FromEnv(getenv func(string) string) (*Config, error) {
	of := func(name string) string {
		if v := getenv(traces + name); v != "" {
			return v
		}
		return getenv(all + name)
	}
	at := getenv(traces + "ENDPOINT")
	if base := getenv(endpoint); at == "" && base != "" {
		at = strings.TrimSuffix(base, "/") + "/v1/traces"
	}
	if at == "" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil
	}
	c := &Config{URL: at, Header: http.Header{}}
	var bad duly.BadFields
	if u, err := url.Parse(at); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		bad.Add(endpoint, "must be like http://localhost:4318")
	}
	if p := of("PROTOCOL"); p == "grpc" {
		bad.Add(all+"PROTOCOL", "is grpc; spans are sent by http/json, at the collector's port for HTTP (4318)")
	}
	if text := of("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms < 1 {
			bad.Add(all+"TIMEOUT", "must be a number of milliseconds")
		}
		c.Timeout = time.Duration(ms) * time.Millisecond
	}
	if !readHeaders(c.Header, of("HEADERS")) {
		bad.Add(all+"HEADERS", "must be like name=value,name=value") // its values are secrets
	}
	return c, bad.Err()
}

// readHeaders reads name=value pairs, whose values are written as in a URL.
func readHeaders(header http.Header, text string) bool {
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil || strings.ContainsAny(name, " \r\n\x00") || strings.ContainsAny(value, "\r\n\x00") {
			return false
		}
		header.Add(name, value)
	}
	return true
}
