package otlp

import (
	"encoding/json"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// The types of the JSON encoding of OTLP. IDs are in hex. 64-bit numbers are strings.

type request struct {
	ResourceSpans []resourceSpans `json:"resourceSpans"`
}

type resourceSpans struct {
	Resource   spanResource `json:"resource"`
	ScopeSpans []scopeSpans `json:"scopeSpans"`
}

type spanResource struct {
	Attributes []keyValue `json:"attributes,omitempty"`
}

type scopeSpans struct {
	Scope scope  `json:"scope"`
	Spans []span `json:"spans"`
}

type scope struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

type span struct {
	TraceID    string     `json:"traceId"`
	SpanID     string     `json:"spanId"`
	TraceState string     `json:"traceState,omitempty"`
	ParentID   string     `json:"parentSpanId,omitempty"`
	Name       string     `json:"name"`
	Kind       int        `json:"kind"`
	Start      string     `json:"startTimeUnixNano"`
	End        string     `json:"endTimeUnixNano"`
	Attributes []keyValue `json:"attributes,omitempty"`
	Events     []event    `json:"events,omitempty"`
	Links      []link     `json:"links,omitempty"`
	Status     status     `json:"status"`
}

type event struct {
	Time       string     `json:"timeUnixNano"`
	Name       string     `json:"name"`
	Attributes []keyValue `json:"attributes,omitempty"`
}

type link struct {
	TraceID    string     `json:"traceId"`
	SpanID     string     `json:"spanId"`
	TraceState string     `json:"traceState,omitempty"`
	Attributes []keyValue `json:"attributes,omitempty"`
}

type status struct {
	Message string `json:"message,omitempty"`
	Code    int    `json:"code,omitempty"`
}

type keyValue struct {
	Key   string   `json:"key"`
	Value anyValue `json:"value"`
}

// anyValue has one entry: the type of the value and the value.
type anyValue map[string]any

// encode groups spans by resource and scope.
func encode(spans []sdk.ReadOnlySpan) request {
	var r request
	resourceIndex, scopeIndex := map[attribute.Distinct]int{}, map[[2]any]int{}
	for _, s := range spans {
		// Spans of one batch mostly have the same resource and scope, which are sent once for each group.
		key := s.Resource().Equivalent()
		i, ok := resourceIndex[key]
		if !ok {
			i = len(r.ResourceSpans)
			resourceIndex[key] = i
			r.ResourceSpans = append(r.ResourceSpans, resourceSpans{
				Resource: spanResource{encodeAttributes(s.Resource().Attributes())},
			})
		}

		rs := &r.ResourceSpans[i]
		name := scope{s.InstrumentationScope().Name, s.InstrumentationScope().Version}
		k, ok := scopeIndex[[2]any{i, name}]
		if !ok {
			k = len(rs.ScopeSpans)
			scopeIndex[[2]any{i, name}] = k
			rs.ScopeSpans = append(rs.ScopeSpans, scopeSpans{Scope: name})
		}
		rs.ScopeSpans[k].Spans = append(rs.ScopeSpans[k].Spans, encodeSpan(s))
	}
	return r
}

func encodeSpan(s sdk.ReadOnlySpan) span {
	c := s.SpanContext()
	out := span{
		TraceID: c.TraceID().String(), SpanID: c.SpanID().String(), TraceState: c.TraceState().String(),
		Name: s.Name(), Kind: encodeKind(s.SpanKind()),
		Start: encodeTime(s.StartTime()), End: encodeTime(s.EndTime()),
		Attributes: encodeAttributes(s.Attributes()), Status: encodeStatus(s.Status()),
	}

	// A root span has no parent, and an ID of zeros is not valid in OTLP.
	if parent := s.Parent().SpanID(); parent.IsValid() {
		out.ParentID = parent.String()
	}

	for _, e := range s.Events() {
		out.Events = append(out.Events, event{encodeTime(e.Time), e.Name, encodeAttributes(e.Attributes)})
	}
	for _, l := range s.Links() {
		c := l.SpanContext
		out.Links = append(out.Links, link{
			TraceID: c.TraceID().String(), SpanID: c.SpanID().String(), TraceState: c.TraceState().String(),
			Attributes: encodeAttributes(l.Attributes),
		})
	}
	return out
}

// encodeTime returns a time in nanoseconds since 1970.
func encodeTime(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

// encodeKind returns the number of a kind in OTLP.
func encodeKind(k trace.SpanKind) int {
	switch k {
	case trace.SpanKindServer:
		return 2
	case trace.SpanKindClient:
		return 3
	case trace.SpanKindProducer:
		return 4
	case trace.SpanKindConsumer:
		return 5
	}
	return 1 // internal is the default kind
}

func encodeStatus(s sdk.Status) status {
	switch s.Code {
	case codes.Ok:
		return status{Code: 1}
	case codes.Error:
		return status{Code: 2, Message: s.Description}
	}
	return status{}
}

func encodeAttributes(list []attribute.KeyValue) []keyValue {
	out := make([]keyValue, len(list))
	for i, kv := range list {
		out[i] = keyValue{string(kv.Key), encodeValue(kv.Value)}
	}
	return out
}

// encodeValue returns a value. It encodes a list as a string, because duly sets no
// attribute with a list.
func encodeValue(v attribute.Value) anyValue {
	switch v.Type() {
	case attribute.BOOL:
		return anyValue{"boolValue": v.AsBool()}
	case attribute.INT64:
		return anyValue{"intValue": strconv.FormatInt(v.AsInt64(), 10)}
	case attribute.FLOAT64:
		return anyValue{"doubleValue": json.Number(strconv.FormatFloat(v.AsFloat64(), 'g', -1, 64))}
	}
	return anyValue{"stringValue": v.Emit()}
}
