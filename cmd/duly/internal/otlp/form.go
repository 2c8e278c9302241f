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

// The JSON form of OTLP. IDs are in hex and 64-bit numbers are texts.

type request struct {
	ResourceSpans []resourceSpans `json:"resourceSpans"`
}

type resourceSpans struct {
	Resource   described    `json:"resource"`
	ScopeSpans []scopeSpans `json:"scopeSpans"`
}

type described struct {
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

// anyValue has one of its fields set.
type anyValue map[string]any

// formOf puts spans under their resources and scopes.
func formOf(spans []sdk.ReadOnlySpan) request {
	var r request
	resources, scopes := map[attribute.Distinct]int{}, map[[2]any]int{}
	for _, s := range spans {
		of := s.Resource().Equivalent()
		i, ok := resources[of]
		if !ok {
			i = len(r.ResourceSpans)
			resources[of] = i
			r.ResourceSpans = append(r.ResourceSpans, resourceSpans{Resource: described{attributes(s.Resource().Attributes())}})
		}
		in := &r.ResourceSpans[i]
		name := scope{s.InstrumentationScope().Name, s.InstrumentationScope().Version}
		k, ok := scopes[[2]any{i, name}]
		if !ok {
			k = len(in.ScopeSpans)
			scopes[[2]any{i, name}] = k
			in.ScopeSpans = append(in.ScopeSpans, scopeSpans{Scope: name})
		}
		in.ScopeSpans[k].Spans = append(in.ScopeSpans[k].Spans, spanOf(s))
	}
	return r
}

func spanOf(s sdk.ReadOnlySpan) span {
	place := s.SpanContext()
	out := span{
		TraceID: place.TraceID().String(), SpanID: place.SpanID().String(), TraceState: place.TraceState().String(),
		Name: s.Name(), Kind: kind(s.SpanKind()), Start: nano(s.StartTime()), End: nano(s.EndTime()),
		Attributes: attributes(s.Attributes()), Status: statusOf(s.Status()),
	}
	if s.Parent().SpanID().IsValid() {
		out.ParentID = s.Parent().SpanID().String()
	}
	for _, e := range s.Events() {
		out.Events = append(out.Events, event{nano(e.Time), e.Name, attributes(e.Attributes)})
	}
	for _, l := range s.Links() {
		c := l.SpanContext
		out.Links = append(out.Links, link{c.TraceID().String(), c.SpanID().String(), c.TraceState().String(), attributes(l.Attributes)})
	}
	return out
}

func nano(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

// kind is a span's in the numbers of OTLP.
func kind(k trace.SpanKind) int {
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
	return 1 // internal
}

func statusOf(s sdk.Status) status {
	switch s.Code {
	case codes.Ok:
		return status{Code: 1}
	case codes.Error:
		return status{Code: 2, Message: s.Description}
	}
	return status{}
}

func attributes(list []attribute.KeyValue) []keyValue {
	out := make([]keyValue, len(list))
	for i, kv := range list {
		out[i] = keyValue{string(kv.Key), valueOf(kv.Value)}
	}
	return out
}

// valueOf is a value; a list is told as its text, for nobody here makes one.
func valueOf(v attribute.Value) anyValue {
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
