package otlp

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly/contract"
)

// Config is the destination of spans.
type Config struct {
	// URL is the collector's address for traces, such as http://localhost:4318/v1/traces.
	URL string
	// Header is sent with every request.
	Header http.Header
	// Timeout limits one request. Default 10 s.
	Timeout time.Duration
	// Client sends the requests. Default: a client of the exporter's own.
	Client *http.Client
}

// The prefixes of the standard variables. A variable for traces overrides that for
// all signals.
const (
	forAll    = "OTEL_EXPORTER_OTLP_"
	forTraces = "OTEL_EXPORTER_OTLP_TRACES_"
)

// FromEnv reads the variables. It returns nil if they name no collector or disable
// traces, and [duly.ErrInvalid] for values that it cannot parse.
func FromEnv(getenv func(string) string) (*Config, error) {
	address := tracesURL(getenv)

	// OpenTelemetry defines each of these values as a way to turn traces off.
	if address == "" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") ||
		getenv("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil
	}
	// Each error names the variable that was read.
	get := func(name string) (variable, value string) {
		if value := getenv(forTraces + name); value != "" {
			return forTraces + name, value
		}
		return forAll + name, getenv(forAll + name)
	}

	c := &Config{URL: address, Header: http.Header{}}
	var bad contract.BadFields
	if u, err := url.Parse(address); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		variable, _ := get("ENDPOINT")
		bad.Add(variable, "must be like %s", exampleURL(variable))
	}

	// The default ports of a collector differ by protocol, so the error names the right one.
	if variable, protocol := get("PROTOCOL"); protocol == "grpc" {
		bad.Add(variable, "is grpc, must be http/json; use the collector's port for HTTP (4318)")
	}
	if variable, text := get("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms < 1 {
			bad.Add(variable, "must be a number of milliseconds")
		}
		c.Timeout = time.Duration(ms) * time.Millisecond
	}

	// The headers hold secrets, so the error does not repeat them.
	if variable, headers := get("HEADERS"); !readHeaders(c.Header, headers) {
		bad.Add(variable, "must be like name=value,name=value")
	}
	return c, bad.Err()
}

// exampleURL returns a valid value of a variable with the collector's address. Only the
// address for traces includes the path.
func exampleURL(variable string) string {
	if variable == forTraces+"ENDPOINT" {
		return "http://localhost:4318/v1/traces"
	}
	return "http://localhost:4318"
}

// tracesURL returns the address for traces, or "" if the variables name none.
func tracesURL(getenv func(string) string) string {
	if address := getenv(forTraces + "ENDPOINT"); address != "" {
		return address
	}
	if base := getenv(forAll + "ENDPOINT"); base != "" {
		return strings.TrimSuffix(base, "/") + "/v1/traces"
	}
	return ""
}

// readHeaders adds the name=value pairs of a string to header. Values are escaped as in
// a URL. It returns false if the text has another form.
func readHeaders(header http.Header, text string) bool {
	for pair := range strings.SplitSeq(text, ",") {
		// An empty member, such as after a comma at the end, is harmless.
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(value))

		// A line end in a header would add another header to the request.
		if !ok || name == "" || err != nil ||
			strings.ContainsAny(name, " \r\n\x00") || strings.ContainsAny(value, "\r\n\x00") {
			return false
		}
		header.Add(name, value)
	}
	return true
}
