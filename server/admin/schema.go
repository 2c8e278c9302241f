package admin

import "time"

// The JSON of requests and answers, as it is documented.

// open lets an answer have more members than are known.
type open struct {
	_ struct{} `json:"-" additionalProperties:"true"`
}

type checkForm struct {
	Repair bool `json:"repair,omitempty" doc:"Mend what is found."`
}

type checkLineForm struct {
	open
	Done   int64           `json:"done,omitempty" doc:"Progress: jobs looked at."`
	Total  int64           `json:"total,omitempty" doc:"Progress: of how many, as far as it is known."`
	Report *reportForm     `json:"report,omitempty" doc:"The last line."`
	Error  *checkErrorForm `json:"error,omitempty" doc:"The last line of a check that failed."`
}

type reportForm struct {
	open
	Jobs     int64       `json:"jobs"`
	Repaired int         `json:"repaired" doc:"Faults that were mended."`
	Faults   []faultForm `json:"faults"`
}

type faultForm struct {
	open
	Kind      string `json:"kind" doc:"A stable name."`
	Namespace string `json:"namespace"`
	Queue     string `json:"queue"`
	ID        string `json:"id,omitempty"`
	Detail    string `json:"detail,omitempty"`
	Repaired  bool   `json:"repaired"`
}

type checkErrorForm struct {
	open
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// TokenForm is a token as it is asked for. It is exported so that it can be
// embedded.
type TokenForm struct {
	Namespace   string      `json:"namespace" example:"default" doc:"A namespace, or * for all."`
	Rights      []string    `json:"rights" enum:"produce,consume,admin" minItems:"1" maxItems:"3" doc:"admin includes the other two."`
	Description string      `json:"description,omitempty" maxLength:"255"`
	Limits      *limitsForm `json:"limits,omitempty"`
}

type limitsForm struct {
	Produce int    `json:"produce,omitempty" minimum:"1" maximum:"1000000000" doc:"Calls of push in one window; absent: no limit."`
	Consume int    `json:"consume,omitempty" minimum:"1" maximum:"1000000000" doc:"Calls of reserve in one window; absent: no limit."`
	Per     string `json:"per,omitempty" example:"1m" doc:"How long a window is that begins with the first call in it, 1s to 366d."`
}

type limitTokenForm struct {
	Limits limitsForm `json:"limits" doc:"All of them; {} takes them away."`
}

type tokensForm struct {
	open
	Tokens []storedTokenForm `json:"tokens"`
	Next   string            `json:"next"`
}

type storedTokenForm struct {
	open
	TokenForm
	ID        string    `json:"id" doc:"The SHA-256 of the token's text in hex."`
	CreatedAt time.Time `json:"created_at"`
}

type madeTokenForm struct {
	open
	TokenForm
	ID        string    `json:"id" doc:"The SHA-256 of its text in hex, by which it is listed and revoked."`
	Token     string    `json:"token" doc:"Shown this once; the server keeps its hash."`
	CreatedAt time.Time `json:"created_at"`
}

type namespacesForm struct {
	open
	Namespaces []namespaceForm `json:"namespaces"`
	Next       string          `json:"next"`
}

type namespaceForm struct {
	open
	Name string `json:"name"`
}

type poolsForm struct {
	open
	Pools []poolForm `json:"pools"`
}

type poolForm struct {
	open
	Name  string `json:"name"`
	Ready bool   `json:"ready" doc:"Its engine answers."`
}

type movingForm struct {
	Namespace string `json:"namespace" example:"shop"`
	To        string `json:"to" example:"orders" doc:"The pool."`
}

type placeForm struct {
	Pool string `json:"pool" example:"orders"`
}

type movesForm struct {
	open
	Moves []moveForm `json:"moves"`
}

type moveForm struct {
	open
	Namespace string    `json:"namespace"`
	Pool      string    `json:"pool" doc:"Where it is, or moves to."`
	From      string    `json:"from,omitempty" doc:"The pool that it moves out of."`
	Phase     string    `json:"phase,omitempty" enum:"prepare,drain"`
	Since     time.Time `json:"since,omitempty" doc:"When the phase began, on that server's clock."`
	Queues    int       `json:"queues,omitempty" doc:"Queues that are left where it moves out of."`
	Left      *leftForm `json:"left,omitempty" doc:"Jobs that are left there."`
}

type leftForm struct {
	open
	Delayed int64 `json:"delayed"`
	Ready   int64 `json:"ready"`
	Blocked int64 `json:"blocked"`
	Leased  int64 `json:"leased"`
	Dead    int64 `json:"dead"`
	Done    int64 `json:"done"`
}
