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
	return &huma.Schema{Type: huma.TypeString, Title: "duration", Examples: []any{"1h30m"},
		Description: "A duration: 250ms, 90s, 1h30m, 7d."}
}

type durationOrNone string

func (durationOrNone) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Title: "duration or none", Examples: []any{"7d", "none"},
		Description: "A duration (250ms, 90s, 1h30m, 7d), or none."}
}

type countOrNone int

func (countOrNone) Schema(huma.Registry) *huma.Schema {
	one := 1.0
	return &huma.Schema{Title: "integer or none",
		AnyOf: []*huma.Schema{{Type: huma.TypeInteger, Minimum: &one}, {Type: huma.TypeString, Enum: []any{"none"}}}}
}

type rateOrNone float64

func (rateOrNone) Schema(huma.Registry) *huma.Schema {
	zero := 0.0
	return &huma.Schema{Title: "number or none",
		AnyOf: []*huma.Schema{{Type: huma.TypeNumber, ExclusiveMinimum: &zero}, {Type: huma.TypeString, Enum: []any{"none"}}}}
}

// A field's doc ends with its bound and its default where the schema's own
// keywords cannot say them: "Bound: 100ms to 366d. Default: 30s." The pages
// print both in columns of their own.

type mergeForm struct {
	Key     string   `json:"key,omitempty" maxLength:"128" doc:"Jobs with an equal key and an equal order key are equal. Default: the SHA-256 of the body, if a mode is given."`
	Mode    string   `json:"mode,omitempty" enum:"keep,replace" doc:"What a second push does to the waiting job: keep leaves it, replace takes every field of the new one. Default: keep."`
	MaxWait duration `json:"max_wait,omitempty" doc:"With replace: how long repeated pushes can postpone the job, counted from the first. Default: no bound."`
	Until   string   `json:"until,omitempty" enum:"leased,done" doc:"How long the job holds the key: until it is leased, or until it is finished (only with keep). Default: leased."`
}

// RulesForm has the fields that a pushed job and an update share. It is
// exported because huma sees the fields of an embedded type only then.
type RulesForm struct {
	Body       string            `json:"body,omitempty" doc:"The body, if it is UTF-8 without NUL. Bound: 1 MiB, or the server's setting. Default: empty."`
	BodyBase64 string            `json:"body_base64,omitempty" contentEncoding:"base64" doc:"The body as base64, instead of body."`
	Headers    map[string]string `json:"headers,omitempty" maxProperties:"64" doc:"Names and values that travel with the job. Names become lower case. Bound: 64 headers, 8 KiB together."`
	Delay      duration          `json:"delay,omitempty" doc:"The job is due this long after the server receives it. Not together with due. Default: 0s."`
	Due        *time.Time        `json:"due,omitempty" doc:"The job is due at this time. A time in the past means now."`
	Priority   int               `json:"priority,omitempty" minimum:"-1000" maximum:"1000" doc:"A higher priority goes first. Default: 0."`
	Tries      int               `json:"tries,omitempty" minimum:"1" maximum:"65535" doc:"How many deliveries may fail before the job is dead. Default: the queue's, 16."`
	MaxStalls  countOrNone       `json:"max_stalls,omitempty" doc:"How many stalls the job survives. With none, each stall counts as a failed try. Bound: 1 to 65535. Default: the queue's, 8."`
	Backoff    string            `json:"backoff,omitempty" example:"exp:1s:1h" doc:"The delay before the next try: fixed:5s, exp:1s:1h, or steps like 15s,3m,10m. Default: the queue's, exp:1s:1h."`
	TTL        durationOrNone    `json:"ttl,omitempty" doc:"How long the job may wait before it expires. Bound: at least the delay. Default: the queue's, none."`
	Lease      duration          `json:"lease,omitempty" doc:"How long a delivery holds the job. Bound: 100ms to 366d. Default: the queue's, 30s."`
	Retain     durationOrNone    `json:"retain,omitempty" doc:"How long the finished job and its result stay visible. Default: the queue's, none."`
}

// OneJobForm is a job without its queue. It is exported so that it can be embedded.
type OneJobForm struct {
	ID string `json:"id,omitempty" maxLength:"128" pattern:"^[A-Za-z0-9_][A-Za-z0-9._:-]*$" doc:"Unique in its queue while the job exists. Without an ID, a repeat after a lost answer is a second job. Default: a ULID."`
	RulesForm
	OrderKey string     `json:"order_key,omitempty" maxLength:"128" doc:"Jobs with the same order key run one at a time, in order."`
	Merge    *mergeForm `json:"merge,omitempty" doc:"Equal jobs that still wait become one job."`
	Callback string     `json:"callback,omitempty" maxLength:"2048" example:"https://example.com/hook" doc:"For a push queue: the URL that the servers call for this job, or target:NAME. It creates the queue as a push queue. Default: the queue's push_url."`
	OnDone   string     `json:"on_done,omitempty" maxLength:"2048" doc:"For a push queue: a URL or target:NAME that gets a notice when the job is done, or none. Default: the queue's."`
	OnDead   string     `json:"on_dead,omitempty" maxLength:"2048" doc:"For a push queue: a URL or target:NAME that gets a notice when the job is dead, or none. Default: the queue's."`
	Made     bool       `json:"made,omitempty" doc:"For client libraries: the ID is a ULID that the client made for this job, and this is the first try. A repeat must not set it, because a receipt of the earlier job with this ID would fit the new one. Default: false."`
}

type jobForm struct {
	Queue string `json:"queue" maxLength:"255" pattern:"^[A-Za-z0-9-][A-Za-z0-9._-]*$" doc:"The queue's name."`
	OneJobForm
}

type pushForm struct {
	Jobs []jobForm `json:"jobs" maxItems:"1000" doc:"The jobs to store."`
}

type fieldForm struct {
	open
	Field   string `json:"field" doc:"The field as requests spell it."`
	Problem string `json:"problem" doc:"What is wrong with it, and its bound."`
}

// ErrorForm is the error of one item.
type ErrorForm struct {
	open
	Code       string      `json:"code" doc:"The stable code of the error."`
	Detail     string      `json:"detail" doc:"What is wrong and what to do."`
	Fields     []fieldForm `json:"fields,omitempty" doc:"Every bad field, for invalid and too_large."`
	State      string      `json:"state,omitempty" enum:"delayed,ready,blocked,leased,dead,done" doc:"For conflict: the state that prevents the operation."`
	RetryAfter duration    `json:"retry_after,omitempty" doc:"When to try again, for limited."`
}

// problemForm is the error of a whole request, RFC 9457.
type problemForm struct {
	ErrorForm
	Type   string `json:"type" doc:"Always about:blank."`
	Title  string `json:"title" doc:"The status as text."`
	Status int    `json:"status" doc:"The HTTP status."`
}

// open lets an answer have more members than are known.
type open struct {
	_ struct{} `json:"-" additionalProperties:"true"`
}

type pushResultForm struct {
	open
	ID      string     `json:"id,omitempty" doc:"The job's ID; for merged, the ID of the waiting job."`
	Outcome string     `json:"outcome,omitempty" enum:"created,merged,exists" doc:"created stored the job. merged joined it with a waiting job. exists found a job with its ID."`
	State   string     `json:"state,omitempty" enum:"delayed,ready,blocked,leased,dead,done" doc:"For exists: the state of the other job."`
	Error   *ErrorForm `json:"error,omitempty" doc:"Instead of an outcome: what is wrong with this job alone."`
}

// pushedOneForm is the answer to a push of a single job.
type pushedOneForm struct {
	open
	ID      string `json:"id" doc:"The job's ID; for merged, the ID of the waiting job."`
	Outcome string `json:"outcome" enum:"created,merged,exists" doc:"created stored the job. merged joined it with a waiting job. exists found a job with its ID."`
	State   string `json:"state,omitempty" enum:"delayed,ready,blocked,leased,dead,done" doc:"For exists: the state of the other job."`
}

type pushedForm struct {
	open
	Results []pushResultForm `json:"results" doc:"One result per job, in order."`
}

type reserveForm struct {
	Queues []string `json:"queues" minItems:"1" maxItems:"100" doc:"The queues to take from, and groups as TOPIC@GROUP, in strict order."`
	Max    int      `json:"max,omitempty" minimum:"1" maximum:"1000" doc:"The most deliveries to take. Default: 1."`
	Lease  duration `json:"lease,omitempty" doc:"How long to hold each job. Bound: 100ms to 366d. Default: each job's own."`
	Wait   duration `json:"wait,omitempty" doc:"How long to wait for the first job. Bound: 10m. Default: 0s."`
	// Consumer and Target are for groups alone.
	Consumer string `json:"consumer,omitempty" maxLength:"255" doc:"The caller's name, which the stats of a group list. It owns nothing. Default: none."`
	Target   string `json:"target,omitempty" maxLength:"255" doc:"For a bridge: the queue that the caller pushes the messages of a group into, which must be the group's target. Default: none."`
}

// StoredForm is a job as an engine returns it.
type StoredForm struct {
	ID         string            `json:"id" doc:"The job's ID."`
	Queue      string            `json:"queue" doc:"The queue's name."`
	Body       string            `json:"body,omitempty" doc:"The body, if it is UTF-8 without NUL."`
	BodyBase64 string            `json:"body_base64,omitempty" contentEncoding:"base64" doc:"The body as base64, if it is anything else."`
	Headers    map[string]string `json:"headers,omitempty" doc:"The job's headers, names in lower case."`
	Priority   int               `json:"priority" doc:"A higher priority goes first."`
	Tries      int               `json:"tries" doc:"How many deliveries may fail before the job is dead."`
	MaxStalls  countOrNone       `json:"max_stalls" doc:"How many stalls the job survives."`
	Backoff    string            `json:"backoff" doc:"The delay before the next try."`
	TTL        durationOrNone    `json:"ttl" doc:"How long the job may wait before it expires."`
	Lease      duration          `json:"lease" doc:"How long a delivery holds the job."`
	Retain     durationOrNone    `json:"retain" doc:"How long the finished job stays visible."`
	OrderKey   string            `json:"order_key,omitempty" doc:"Jobs with the same order key run one at a time, in order."`
	Merge      *mergeForm        `json:"merge,omitempty" doc:"How the job merges with equal jobs."`
	Callback   string            `json:"callback,omitempty" doc:"For a push queue: the URL that the servers call, or target:NAME."`
	OnDone     string            `json:"on_done,omitempty" doc:"For a push queue: where a notice goes when the job is done, if the job says so."`
	OnDead     string            `json:"on_dead,omitempty" doc:"For a push queue: where a notice goes when the job is dead, if the job says so."`
	Due        time.Time         `json:"due" doc:"When the job is or was due."`
	Attempt    int               `json:"attempt" doc:"The number of the running delivery, or of the next one."`
	Failures   int               `json:"failures" doc:"How many deliveries have failed."`
	Stalls     int               `json:"stalls" doc:"How many leases have run out."`
	PushedAt   time.Time         `json:"pushed_at" doc:"When the job was pushed."`
	ExpiresAt  *time.Time        `json:"expires_at,omitempty" doc:"When the job expires; absent without a TTL."`
}

type deliveryForm struct {
	open
	StoredForm
	Receipt  string    `json:"receipt" doc:"Settles and extends this delivery and no other."`
	LeaseEnd time.Time `json:"lease_end" doc:"When the lease runs out unless it is extended."`
	Now      time.Time `json:"now" doc:"When the engine handed out the job, on its clock."`
}

type deliveriesForm struct {
	open
	Deliveries []deliveryForm `json:"deliveries" doc:"The jobs that this call took."`
}

type waitForm struct {
	Queues []string `json:"queues" minItems:"1" maxItems:"100" doc:"The queues to watch, and groups as TOPIC@GROUP."`
	Wait   duration `json:"wait,omitempty" doc:"How long to wait. Bound: 10m. Default: 0s."`
}

type readyForm struct {
	open
	Ready bool `json:"ready" doc:"Whether one of the queues may have a deliverable job."`
}

type canceledAskForm struct {
	After string   `json:"after,omitempty" maxLength:"512" doc:"The cursor of the last answer. Without it, any is true."`
	Wait  duration `json:"wait,omitempty" doc:"How long to wait. Bound: 10m. Default: 0s."`
}

type removedForm struct {
	open
	Queue string   `json:"queue" doc:"The queue's name."`
	IDs   []string `json:"ids,omitempty" doc:"The IDs of the removed jobs. Absent: any leased job of the queue may be gone."`
}

type canceledForm struct {
	open
	Canceled []removedForm `json:"canceled" doc:"The jobs that were removed since the cursor."`
	Any      bool          `json:"any" doc:"True if reports were lost: any leased job of the namespace may be gone."`
	Cursor   string        `json:"cursor" doc:"Where to go on: pass it as after."`
}

type outcomeForm struct {
	Receipt      string   `json:"receipt" doc:"The receipt of the delivery."`
	As           string   `json:"as" enum:"ack,nack,release,bury" doc:"ack: done. nack: failed, try again. release: give it back without using a try. bury: dead now."`
	Delay        duration `json:"delay,omitempty" doc:"For nack: when to try again. For release: how long to snooze. Default: the backoff for nack, the old due time for release."`
	Error        string   `json:"error,omitempty" doc:"For nack the failure, for bury the reason. Bound: cut at 4 KiB."`
	Result       string   `json:"result,omitempty" doc:"For ack: kept with a job that is retained. Bound: 64 KiB."`
	ResultBase64 string   `json:"result_base64,omitempty" contentEncoding:"base64" doc:"The result as base64, instead of result."`
}

type settleForm struct {
	Outcomes []outcomeForm `json:"outcomes" maxItems:"1000" doc:"How each delivery ends."`
}

type extendForm struct {
	Receipts []string `json:"receipts" maxItems:"1000" doc:"The receipts of the deliveries."`
	Lease    duration `json:"lease,omitempty" doc:"How long to hold each job from now. Bound: 100ms to 366d. Default: each job's own."`
}

type resultForm struct {
	open
	OK    bool       `json:"ok,omitempty" doc:"True if the item succeeded."`
	Error *ErrorForm `json:"error,omitempty" doc:"Instead of ok."`
}

type resultsForm struct {
	open
	Results []resultForm `json:"results" doc:"One result per item, in order."`
}

type listedQueueForm struct {
	open
	Name  string     `json:"name" doc:"The queue's name."`
	Stats *statsForm `json:"stats,omitempty" doc:"With stats=true: sizes and counters."`
	// What holds its jobs back.
	Paused    bool        `json:"paused,omitempty" doc:"With stats=true: true if the queue is paused."`
	MaxLeased countOrNone `json:"max_leased,omitempty" doc:"With stats=true: the most jobs leased at once. Absent if there is no bound."`
	Rate      rateOrNone  `json:"rate,omitempty" doc:"With stats=true: deliveries per second. Absent if there is no bound."`
	Burst     int         `json:"burst,omitempty" doc:"With stats=true: deliveries that may come at once, if that was set."`
	Error     *ErrorForm  `json:"error,omitempty" doc:"Instead of stats: why this queue could not be read."`
}

type queuesForm struct {
	open
	Queues []listedQueueForm `json:"queues" doc:"The queues of this page, by name."`
	Next   string            `json:"next" doc:"The cursor of the next page; empty at the end."`
}

type defaultsForm struct {
	Tries     int            `json:"tries,omitempty" minimum:"1" maximum:"65535" doc:"Tries of a job. Default: 16."`
	MaxStalls countOrNone    `json:"max_stalls,omitempty" doc:"Stalls that a job survives. Bound: 1 to 65535. Default: 8."`
	Backoff   string         `json:"backoff,omitempty" doc:"The backoff policy of a job. Default: exp:1s:1h."`
	Lease     duration       `json:"lease,omitempty" doc:"The lease of a delivery. Bound: 100ms to 366d. Default: 30s."`
	TTL       durationOrNone `json:"ttl,omitempty" doc:"The TTL of a job. Default: none."`
	Retain    durationOrNone `json:"retain,omitempty" doc:"How long a finished job stays visible. Default: none."`
}

// ConfigForm is a patch of a queue's configuration. It is exported so that it
// can be embedded.
type ConfigForm struct {
	Shards    int            `json:"shards,omitempty" minimum:"1" maximum:"256" doc:"A power of two. It cannot change after the queue was created. Default: 1."`
	Defaults  *defaultsForm  `json:"defaults,omitempty" doc:"Values for fields that a pushed job leaves out."`
	DeadAge   durationOrNone `json:"dead_age,omitempty" doc:"How long dead jobs are kept. Default: 90d."`
	DeadCount countOrNone    `json:"dead_count,omitempty" doc:"How many dead jobs are kept. Default: 100000."`
	MaxJobs   countOrNone    `json:"max_jobs,omitempty" doc:"The most delayed, ready, blocked and leased jobs together. Default: none."`
	MaxLeased countOrNone    `json:"max_leased,omitempty" doc:"The most jobs leased at once, over all workers. Default: none."`
	Rate      rateOrNone     `json:"rate,omitempty" doc:"Deliveries per second, over all workers. Default: none."`
	Burst     int            `json:"burst,omitempty" minimum:"1" maximum:"1000000" doc:"Deliveries that may come at once after a quiet time. Default: the rate, rounded up."`
	Order     string         `json:"order,omitempty" enum:"none,key" doc:"For a group: key handles the messages of one key one at a time, in log order. Default: none."`
	MaxHeld   int            `json:"max_held,omitempty" minimum:"1" doc:"For a group: the most ready, delayed, blocked and leased messages together; at the bound the cursor stops. Default: 100000."`
	Filter    string         `json:"filter,omitempty" doc:"For a group: conditions on headers and the key, as type=order&@key=a, or none. Bound: 8 conditions. Default: none."`
	Idle      durationOrNone `json:"idle,omitempty" doc:"For a group: after so long without a reserve it needs no message any more. Bound: at least 1h. Default: none."`
	Delivery  string         `json:"delivery,omitempty" enum:"pull,push" doc:"Who takes the jobs: pull by reserve, push by the servers, which call a URL. It changes only while the queue is empty. Default: pull."`
	PushURL   string         `json:"push_url,omitempty" maxLength:"2048" doc:"For a push queue: the URL or target:NAME for jobs without a callback, or none. Default: none."`
	OnDone    string         `json:"on_done,omitempty" maxLength:"2048" doc:"For a push queue: a URL or target:NAME that gets a notice when a job is done, or none. Default: none."`
	OnDead    string         `json:"on_dead,omitempty" maxLength:"2048" doc:"For a push queue: a URL or target:NAME that gets a notice when a job is dead, or none. Default: none."`
	Target    string         `json:"target,omitempty" maxLength:"255" doc:"For a group: the queue that the servers push each message into, or none. Default: none."`
}

type queueForm struct {
	open
	Name   string          `json:"name" doc:"The queue's name."`
	Config wholeConfigForm `json:"config" doc:"The configuration with every field filled in."`
	Stats  statsForm       `json:"stats" doc:"Sizes and counters."`
}

type wholeConfigForm struct {
	open
	ConfigForm
	Paused bool `json:"paused" doc:"Whether the queue is paused. Only pause and resume change it."`
}

type statsForm struct {
	open
	Sizes       map[string]int64 `json:"sizes" doc:"Jobs per state, by the clock."`
	Counters    map[string]int64 `json:"counters" doc:"Events since the queue was created: pushed, merged, delivered, acked, failed, stalled, released, dead, requeued, expired, deleted, dropped."`
	OldestReady duration         `json:"oldest_ready" doc:"How long the oldest ready job has been due."`
	NextDue     *time.Time       `json:"next_due,omitempty" doc:"The earliest due time in the future."`
	Delivery    string           `json:"delivery,omitempty" enum:"pull,push" doc:"Who takes the jobs."`
	Group       *groupStatsForm  `json:"group,omitempty" doc:"For a group: where it is in the log."`
}

type requeueForm struct {
	IDs   []string       `json:"ids,omitempty" maxItems:"1000" doc:"The IDs of dead jobs. Give ids or n."`
	N     int            `json:"n,omitempty" minimum:"1" maximum:"1000" doc:"Requeue the n oldest dead jobs."`
	Tries int            `json:"tries,omitempty" minimum:"1" maximum:"65535" doc:"New tries of each job. Default: each job's own."`
	TTL   durationOrNone `json:"ttl,omitempty" doc:"A TTL from now. Default: none."`
}

type requeuedForm struct {
	open
	Results []requeueResultForm `json:"results" doc:"One result per job."`
}

type requeueResultForm struct {
	open
	ID     string     `json:"id" doc:"The job's ID."`
	State  string     `json:"state,omitempty" enum:"ready,blocked" doc:"The state that the job is in now."`
	Merged string     `json:"merged,omitempty" doc:"The ID of the waiting job that holds its merge key."`
	Error  *ErrorForm `json:"error,omitempty" doc:"Instead of a state: why this job was not requeued."`
}

type purgeForm struct {
	State string `json:"state" enum:"delayed,ready,blocked,leased,dead,done" doc:"Which jobs to delete."`
	N     int    `json:"n,omitempty" minimum:"1" doc:"The most jobs to delete. Default: all of them."`
}

type purgedForm struct {
	open
	Purged int `json:"purged" doc:"How many jobs were deleted."`
}

type infoForm struct {
	open
	StoredForm
	State        string     `json:"state" enum:"delayed,ready,blocked,leased,dead,done" doc:"The job's state, by the clock."`
	Size         int        `json:"size" doc:"The body's length in bytes, also if the body is left out."`
	LeaseEnd     *time.Time `json:"lease_end,omitempty" doc:"When the lease runs out, for a leased job."`
	FinishedAt   *time.Time `json:"finished_at,omitempty" doc:"When the job became dead or done."`
	LastError    string     `json:"last_error,omitempty" doc:"The error of the last failure."`
	Result       string     `json:"result,omitempty" doc:"The result of a done job."`
	ResultBase64 string     `json:"result_base64,omitempty" contentEncoding:"base64" doc:"The result as base64, if it is not text."`
}

type jobsForm struct {
	open
	Jobs []infoForm `json:"jobs" doc:"The jobs of this page; bodies only with bodies=true."`
	Next string     `json:"next" doc:"The cursor of the next page; empty at the end."`
}

// Problem is the type of an error's answer, for the OpenAPI document.
type Problem = problemForm
