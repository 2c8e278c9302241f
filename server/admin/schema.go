package admin

import "time"

// The types in this file describe the JSON of requests and answers for the
// documentation.

// open marks an answer that may get more members in later versions.
type open struct {
	_ struct{} `json:"-" additionalProperties:"true"`
}

type checkForm struct {
	Repair bool `json:"repair,omitempty" doc:"Repair what the check finds. Default: false."`
}

type checkLineForm struct {
	open
	Done   int64           `json:"done,omitempty" doc:"Progress: the jobs and messages checked so far."`
	Total  int64           `json:"total,omitempty" doc:"Progress: the number of jobs and messages, as far as it is known."`
	Report *reportForm     `json:"report,omitempty" doc:"The last line of a check."`
	Error  *checkErrorForm `json:"error,omitempty" doc:"The last line of a check that failed."`
}

type reportForm struct {
	open
	Jobs     int64       `json:"jobs" doc:"The jobs that were checked."`
	Messages int64       `json:"messages" doc:"The messages that were checked: held, dead, and delayed."`
	Repaired int         `json:"repaired" doc:"The faults that were repaired."`
	Faults   []faultForm `json:"faults" doc:"The faults that were found."`
}

type faultForm struct {
	open
	Kind      string `json:"kind" doc:"The stable name of the fault."`
	Namespace string `json:"namespace" doc:"The namespace of the queue."`
	Queue     string `json:"queue" doc:"The queue's name."`
	ID        string `json:"id,omitempty" doc:"The job's ID."`
	Detail    string `json:"detail,omitempty" doc:"A description of the fault."`
	Repaired  bool   `json:"repaired" doc:"Whether the check repaired it."`
}

type checkErrorForm struct {
	open
	Code   string `json:"code" doc:"The stable code of the error."`
	Detail string `json:"detail" doc:"The error for people, with what to do."`
}

// TokenForm is the request for a token. It is exported so that it can be embedded.
type TokenForm struct {
	Namespace   string      `json:"namespace" example:"default" doc:"A namespace, or * for all."`
	Rights      []string    `json:"rights" enum:"produce,consume,admin" minItems:"1" maxItems:"3" doc:"What the token may do. admin includes the other two."`
	Description string      `json:"description,omitempty" maxLength:"255" doc:"A text that lists show."`
	Limits      *limitsForm `json:"limits,omitempty" doc:"How many calls the token may make. Default: no limits."`
}

type limitsForm struct {
	Produce int    `json:"produce,omitempty" minimum:"1" maximum:"1000000000" doc:"Calls of push per window. Default: no limit."`
	Consume int    `json:"consume,omitempty" minimum:"1" maximum:"1000000000" doc:"Calls of reserve per window. Default: no limit."`
	Per     string `json:"per,omitempty" example:"1m" doc:"The length of a window. A window begins with the first call in it. Bound: 1s to 366d."`
}

type limitTokenForm struct {
	Limits limitsForm `json:"limits" doc:"All limits; {} removes them."`
}

type tokensForm struct {
	open
	Tokens []storedTokenForm `json:"tokens" doc:"The tokens of this page, by ID."`
	Next   string            `json:"next" doc:"The cursor of the next page; empty at the end."`
}

type storedTokenForm struct {
	open
	TokenForm
	ID        string    `json:"id" doc:"The SHA-256 of the token's text in hex."`
	CreatedAt time.Time `json:"created_at" doc:"When the token was created."`
}

type madeTokenForm struct {
	open
	TokenForm
	ID        string    `json:"id" doc:"The SHA-256 of its text in hex. Lists and revoke use it."`
	Token     string    `json:"token" doc:"The token's text. The server shows it only once and keeps its hash."`
	CreatedAt time.Time `json:"created_at" doc:"When the token was created."`
}

type namespacesForm struct {
	open
	Namespaces []namespaceForm `json:"namespaces" doc:"The namespaces of this page, by name."`
	Next       string          `json:"next" doc:"The cursor of the next page; empty at the end."`
}

type namespaceForm struct {
	open
	Name string `json:"name" doc:"The namespace's name."`
}

type poolsForm struct {
	open
	Pools []poolForm `json:"pools" doc:"The pools, the default one first."`
}

type poolForm struct {
	open
	Name  string `json:"name" doc:"The pool's name."`
	Ready bool   `json:"ready" doc:"Whether the pool's engine answers."`
}

type movingForm struct {
	Namespace string `json:"namespace" example:"shop" doc:"The namespace to move."`
	To        string `json:"to" example:"orders" doc:"The pool to move it to."`
}

type placeForm struct {
	Pool string `json:"pool" example:"orders" doc:"The pool for the namespace."`
}

type movesForm struct {
	open
	Moves []moveForm `json:"moves" doc:"The namespaces that move, or the one that was asked for."`
}

type moveForm struct {
	open
	Namespace string    `json:"namespace" doc:"The namespace's name."`
	Pool      string    `json:"pool" doc:"The pool that it is in, or moves to."`
	From      string    `json:"from,omitempty" doc:"The pool that it moves out of."`
	Phase     string    `json:"phase,omitempty" enum:"prepare,drain" doc:"The phase of the move."`
	Since     time.Time `json:"since,omitempty" doc:"When the phase began, on that server's clock."`
	Queues    int       `json:"queues,omitempty" doc:"Queues that are left in the old pool."`
	Left      *leftForm `json:"left,omitempty" doc:"Jobs that are left in the old pool, per state."`
}

type leftForm struct {
	open
	Delayed int64 `json:"delayed" doc:"Jobs in this state."`
	Ready   int64 `json:"ready" doc:"Jobs in this state."`
	Blocked int64 `json:"blocked" doc:"Jobs in this state."`
	Leased  int64 `json:"leased" doc:"Jobs in this state."`
	Dead    int64 `json:"dead" doc:"Jobs in this state."`
	Done    int64 `json:"done" doc:"Jobs in this state."`
}
