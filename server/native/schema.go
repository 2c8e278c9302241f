package native

import (
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// The types in this file are the forms of package wire once more, for the
// OpenAPI document: names, bounds and words. Nothing is read or written by
// them; a test holds the two together.

type duration string

func (duration) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Examples: []any{"1h30m"},
		Description: "A duration: 250ms, 90s, 1h30m, 7d."}
}

type durationOrNone string

func (durationOrNone) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Examples: []any{"7d", "none"},
		Description: "A duration (250ms, 90s, 1h30m, 7d), or none."}
}

type countOrNone int

func (countOrNone) Schema(huma.Registry) *huma.Schema {
	one := 1.0
	return &huma.Schema{AnyOf: []*huma.Schema{{Type: huma.TypeInteger, Minimum: &one}, {Type: huma.TypeString, Enum: []any{"none"}}}}
}

type rateOrNone float64

func (rateOrNone) Schema(huma.Registry) *huma.Schema {
	zero := 0.0
	return &huma.Schema{AnyOf: []*huma.Schema{{Type: huma.TypeNumber, ExclusiveMinimum: &zero}, {Type: huma.TypeString, Enum: []any{"none"}}}}
}

type mergeForm struct {
	Key     string   `json:"key,omitempty" maxLength:"128" doc:"Equal keys under one order key are equal jobs. Left out, with a mode: the body's SHA-256."`
	Mode    string   `json:"mode,omitempty" enum:"keep,replace" doc:"What a second push does to the waiting job. Default keep."`
	MaxWait duration `json:"max_wait,omitempty" doc:"With replace: for how long pushes can put the job off."`
	Until   string   `json:"until,omitempty" enum:"leased,done" doc:"How long the job holds the key. Default leased."`
}

// RulesForm is what a job as it is pushed and a change of one share. huma sees
// the fields of an embedded type only if that is exported.
type RulesForm struct {
	Body       string            `json:"body,omitempty" doc:"The body where it is UTF-8 without NUL; at most 1 MiB unless the server is set to another bound."`
	BodyBase64 string            `json:"body_base64,omitempty" contentEncoding:"base64" doc:"The body where it is anything else. Give one of the two."`
	Headers    map[string]string `json:"headers,omitempty" maxProperties:"64" doc:"At most 64, 8 KiB together. Names are kept in lower case."`
	Delay      duration          `json:"delay,omitempty" doc:"Due this long after the server gets it. Not together with due."`
	Due        *time.Time        `json:"due,omitempty" doc:"Due at this moment; one in the past is now."`
	Priority   int               `json:"priority,omitempty" minimum:"-1000" maximum:"1000" doc:"Higher goes first. Default 0."`
	Tries      int               `json:"tries,omitempty" minimum:"1" maximum:"65535" doc:"Deliveries that may end in failure before the job is dead. Default: the queue's, 16."`
	MaxStalls  countOrNone       `json:"max_stalls,omitempty" doc:"Stalls that the job survives, 1 to 65535; none: each counts as a failed try. Default: the queue's, 8."`
	Backoff    string            `json:"backoff,omitempty" example:"exp:1s:1h" doc:"fixed:5s, exp:1s:1h, or steps like 15s,3m,10m. Default: the queue's, exp:1s:1h."`
	TTL        durationOrNone    `json:"ttl,omitempty" doc:"How long the job may wait, at least the delay. Default: the queue's, none."`
	Lease      duration          `json:"lease,omitempty" doc:"How long a delivery holds the job, 100ms to 366d. Default: the queue's, 30s."`
	Retain     durationOrNone    `json:"retain,omitempty" doc:"How long the finished job and its result stay visible. Default: the queue's, none."`
}

type jobForm struct {
	Queue string `json:"queue" maxLength:"255" pattern:"^[A-Za-z0-9-][A-Za-z0-9._-]*$"`
	ID    string `json:"id,omitempty" maxLength:"128" pattern:"^[A-Za-z0-9_][A-Za-z0-9._:-]*$" doc:"Unique in its queue while the job exists. Without one, a repeat after a lost answer is a second job."`
	RulesForm
	OrderKey string     `json:"order_key,omitempty" maxLength:"128" doc:"Jobs of one key run one at a time, in order."`
	Merge    *mergeForm `json:"merge,omitempty" doc:"Equal jobs that still wait are one job."`
	Callback string     `json:"callback,omitempty" format:"uri" doc:"Not supported by this version."`
	Made     bool       `json:"made,omitempty" doc:"The ID is a ULID that the client made for this job, and this is the first try. Repeats must not set it: a receipt of the ID's earlier job would be one of this job."`
}

type pushForm struct {
	Jobs []jobForm `json:"jobs" maxItems:"1000"`
}

type fieldForm struct {
	open
	Field   string `json:"field" doc:"As it is spelled in requests."`
	Problem string `json:"problem" doc:"What is wrong with it and its bound."`
}

// ErrorForm is the error of one item.
type ErrorForm struct {
	open
	Code       string      `json:"code" doc:"Its stable name."`
	Detail     string      `json:"detail"`
	Fields     []fieldForm `json:"fields,omitempty" doc:"Every bad field, for invalid and too_large."`
	State      string      `json:"state,omitempty" enum:"delayed,ready,blocked,leased,dead,done" doc:"The state in the way, for conflict."`
	RetryAfter duration    `json:"retry_after,omitempty" doc:"When to try again, for limited."`
}

// problemForm is the error of a whole request, RFC 9457.
type problemForm struct {
	ErrorForm
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
}

// open lets an answer have more members than are known.
type open struct {
	_ struct{} `json:"-" additionalProperties:"true"`
}

type pushResultForm struct {
	open
	ID      string     `json:"id,omitempty"`
	Outcome string     `json:"outcome,omitempty" enum:"created,merged,exists"`
	State   string     `json:"state,omitempty" enum:"delayed,ready,blocked,leased,dead,done" doc:"For exists: the state that the other job is in."`
	Error   *ErrorForm `json:"error,omitempty" doc:"Instead of an outcome: what is wrong with this job alone."`
}

type pushedForm struct {
	open
	Results []pushResultForm `json:"results" doc:"One per job, in order."`
}

type reserveForm struct {
	Queues []string `json:"queues" minItems:"1" maxItems:"100" doc:"Asked one after the other in this strict order."`
	Max    int      `json:"max,omitempty" minimum:"1" maximum:"1000" doc:"The most deliveries to take. Default 1."`
	Lease  duration `json:"lease,omitempty" doc:"How long to hold each job. Default: as each job says."`
	Wait   duration `json:"wait,omitempty" doc:"For how long to wait while there is nothing, at most 10m. Default: not at all."`
}

// StoredForm is a job as an engine tells it.
type StoredForm struct {
	ID         string            `json:"id"`
	Queue      string            `json:"queue"`
	Body       string            `json:"body,omitempty" doc:"The body where it is UTF-8 without NUL."`
	BodyBase64 string            `json:"body_base64,omitempty" contentEncoding:"base64" doc:"The body where it is anything else."`
	Headers    map[string]string `json:"headers,omitempty"`
	Priority   int               `json:"priority"`
	Tries      int               `json:"tries"`
	MaxStalls  countOrNone       `json:"max_stalls"`
	Backoff    string            `json:"backoff"`
	TTL        durationOrNone    `json:"ttl"`
	Lease      duration          `json:"lease"`
	Retain     durationOrNone    `json:"retain"`
	OrderKey   string            `json:"order_key,omitempty"`
	Merge      *mergeForm        `json:"merge,omitempty"`
	Callback   string            `json:"callback,omitempty"`
	Due        time.Time         `json:"due"`
	Attempt    int               `json:"attempt" doc:"Of the running delivery, or of the next one."`
	Failures   int               `json:"failures"`
	Stalls     int               `json:"stalls"`
	PushedAt   time.Time         `json:"pushed_at"`
	ExpiresAt  *time.Time        `json:"expires_at,omitempty" doc:"Absent without a TTL."`
}

type deliveryForm struct {
	open
	StoredForm
	Receipt  string    `json:"receipt" doc:"Settles this delivery and no other."`
	LeaseEnd time.Time `json:"lease_end" doc:"When the lease runs out unless it is extended."`
	Now      time.Time `json:"now" doc:"When the job was handed out, on the engine's clock."`
}

type deliveriesForm struct {
	open
	Deliveries []deliveryForm `json:"deliveries"`
}

type waitForm struct {
	Queues []string `json:"queues" minItems:"1" maxItems:"100"`
	Wait   duration `json:"wait,omitempty" doc:"At most 10m. Default: look once."`
}

type readyForm struct {
	open
	Ready bool `json:"ready" doc:"One of the queues may have a deliverable job."`
}

type outcomeForm struct {
	Receipt      string   `json:"receipt"`
	As           string   `json:"as" enum:"ack,nack,release,bury"`
	Delay        duration `json:"delay,omitempty" doc:"nack: when to try again instead of the backoff. release: a snooze."`
	Error        string   `json:"error,omitempty" doc:"The failure's text, or the reason of a bury; cut at 4 KiB."`
	Result       string   `json:"result,omitempty" doc:"ack: kept with a job that is retained, at most 64 KiB."`
	ResultBase64 string   `json:"result_base64,omitempty" contentEncoding:"base64"`
}

type settleForm struct {
	Outcomes []outcomeForm `json:"outcomes" maxItems:"1000"`
}

type extendForm struct {
	Receipts []string `json:"receipts" maxItems:"1000"`
	Lease    duration `json:"lease,omitempty" doc:"From now. Default: each job's own."`
}

type resultForm struct {
	open
	OK    bool       `json:"ok,omitempty"`
	Error *ErrorForm `json:"error,omitempty" doc:"Instead of ok."`
}

type resultsForm struct {
	open
	Results []resultForm `json:"results" doc:"One per item, in order."`
}

type listedQueueForm struct {
	open
	Name  string     `json:"name"`
	Stats *statsForm `json:"stats,omitempty" doc:"If they were asked for."`
	Error *ErrorForm `json:"error,omitempty" doc:"Instead of stats: why this queue's are not told."`
}

type queuesForm struct {
	open
	Queues []listedQueueForm `json:"queues"`
	Next   string            `json:"next" doc:"The cursor of the next page; empty at the end."`
}

type defaultsForm struct {
	Tries     int            `json:"tries,omitempty" minimum:"1" maximum:"65535"`
	MaxStalls countOrNone    `json:"max_stalls,omitempty"`
	Backoff   string         `json:"backoff,omitempty"`
	Lease     duration       `json:"lease,omitempty"`
	TTL       durationOrNone `json:"ttl,omitempty"`
	Retain    durationOrNone `json:"retain,omitempty"`
}

// ConfigForm is a patch of a queue's configuration. It is exported so that it
// can be embedded.
type ConfigForm struct {
	Shards    int            `json:"shards,omitempty" minimum:"1" maximum:"256" doc:"A power of two, fixed when the queue is made. Default 1."`
	Defaults  *defaultsForm  `json:"defaults,omitempty" doc:"Taken by jobs when they are pushed."`
	DeadAge   durationOrNone `json:"dead_age,omitempty" doc:"How long dead jobs are kept. Default 90d."`
	DeadCount countOrNone    `json:"dead_count,omitempty" doc:"How many dead jobs are kept. Default 100000."`
	MaxJobs   countOrNone    `json:"max_jobs,omitempty" doc:"Bounds delayed, ready, blocked and leased jobs together. Default none."`
	MaxLeased countOrNone    `json:"max_leased,omitempty" doc:"Jobs leased at once, over all workers. Default none."`
	Rate      rateOrNone     `json:"rate,omitempty" doc:"Deliveries a second. Default none."`
	Burst     int            `json:"burst,omitempty" minimum:"1" maximum:"1000000" doc:"Deliveries that may come at once after a pause. Default: the rate, rounded up."`
}

type queueForm struct {
	open
	Name   string          `json:"name"`
	Config wholeConfigForm `json:"config"`
	Stats  statsForm       `json:"stats"`
}

type wholeConfigForm struct {
	open
	ConfigForm
	Paused bool `json:"paused" doc:"Changed by pause and resume alone."`
}

type statsForm struct {
	open
	Sizes       map[string]int64 `json:"sizes" doc:"Jobs per state, by the clock."`
	Counters    map[string]int64 `json:"counters" doc:"What has happened since the queue was made: pushed, merged, delivered, acked, failed, stalled, released, dead, requeued, expired, deleted, dropped."`
	OldestReady duration         `json:"oldest_ready" doc:"For how long the oldest ready job has been due."`
	NextDue     *time.Time       `json:"next_due,omitempty" doc:"The next due moment that lies ahead."`
}

type requeueForm struct {
	IDs   []string       `json:"ids,omitempty" maxItems:"1000" doc:"These dead jobs, or"`
	N     int            `json:"n,omitempty" minimum:"1" maximum:"1000" doc:"the n oldest."`
	Tries int            `json:"tries,omitempty" minimum:"1" maximum:"65535" doc:"Default: each job's own."`
	TTL   durationOrNone `json:"ttl,omitempty" doc:"From now. Default none."`
}

type requeuedForm struct {
	open
	Results []requeueResultForm `json:"results" doc:"One per job."`
}

type requeueResultForm struct {
	open
	ID     string     `json:"id"`
	State  string     `json:"state,omitempty" enum:"ready,blocked"`
	Merged string     `json:"merged,omitempty" doc:"The waiting job that holds its merge key and that it was merged into."`
	Error  *ErrorForm `json:"error,omitempty"`
}

type purgeForm struct {
	State string `json:"state" enum:"delayed,ready,blocked,leased,dead,done"`
	N     int    `json:"n,omitempty" minimum:"1" doc:"At most so many. Default: all of them."`
}

type purgedForm struct {
	open
	Purged int `json:"purged" doc:"How many jobs have gone."`
}

type infoForm struct {
	open
	StoredForm
	State        string     `json:"state" enum:"delayed,ready,blocked,leased,dead,done"`
	Size         int        `json:"size" doc:"The body's length in bytes, also where it is left out."`
	LeaseEnd     *time.Time `json:"lease_end,omitempty"`
	FinishedAt   *time.Time `json:"finished_at,omitempty" doc:"When the job became dead or done."`
	LastError    string     `json:"last_error,omitempty"`
	Result       string     `json:"result,omitempty"`
	ResultBase64 string     `json:"result_base64,omitempty" contentEncoding:"base64"`
}

type jobsForm struct {
	open
	Jobs []infoForm `json:"jobs" doc:"Without bodies unless they were asked for."`
	Next string     `json:"next" doc:"The cursor of the next page; only an empty one is the end."`
}

// Problem is the type of an error's answer, for the OpenAPI document.
type Problem = problemForm
