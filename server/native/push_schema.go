package native

import "time"

// TargetForm has the settings of a target, as a request sets them and an answer shows
// them.
type TargetForm struct {
	URL         string     `json:"url" maxLength:"2048" doc:"Where jobs go: https, or http to an address that the server allows."`
	Method      string     `json:"method,omitempty" enum:"POST,PUT,PATCH" doc:"The method of the requests. Default: POST."`
	Timeout     duration   `json:"timeout,omitempty" doc:"How long a try may take, with its connection. Bound: 1s to 10m. Default: 10s."`
	Success     []int      `json:"success,omitempty" maxItems:"100" doc:"More statuses that are a success. Default: 2xx alone."`
	Permanent   []int      `json:"permanent,omitempty" maxItems:"100" doc:"Statuses after which a job is dead. Default: 410 disables the target, and the others are tried again."`
	Concurrency int        `json:"concurrency,omitempty" minimum:"1" maximum:"10000" doc:"Requests in flight of each server at most. Default: 64."`
	Rate        rateOrNone `json:"rate,omitempty" doc:"Requests per second of each server at most. Default: none."`
	Burst       int        `json:"burst,omitempty" minimum:"1" maximum:"1000000" doc:"Requests at once after a pause. Default: the rate, rounded up."`
	Sign        []string   `json:"sign,omitempty" maxItems:"2" doc:"Signatures of each request: v1 (HMAC-SHA256), v1a (ed25519), or both. Default: v1."`
	CA          string     `json:"ca,omitempty" maxLength:"65536" doc:"More authorities for the receiver's certificate, in PEM. Default: those of the system alone."`
	Enabled     *bool      `json:"enabled,omitempty" doc:"false: nothing is sent, and jobs wait. Default: true."`
}

type targetSettingsForm struct {
	TargetForm
	Headers map[string]string `json:"headers,omitempty" maxProperties:"32" doc:"Headers of each request. They are secrets, and no answer has their values. Bound: 8 KiB together. Default: none."`
	Secret  string            `json:"secret,omitempty" doc:"Becomes the target's own secret, which alone signs from now on: whsec_ and 24 to 64 bytes as base64, or whsk_ and 32. Default: the secret stays, at first that of the namespace."`
}

type targetForm struct {
	open
	Name string `json:"name" doc:"The name."`
	TargetForm
	HeaderNames  []string      `json:"header_names,omitempty" doc:"The names of its headers."`
	OwnSecret    bool          `json:"own_secret" doc:"Whether it has a secret of its own, and not that of the namespace."`
	OverlapUntil *time.Time    `json:"overlap_until,omitempty" doc:"Until when the secret before the newest one signs, too."`
	Version      int64         `json:"version" doc:"Counts its changes."`
	Host         *pushHostForm `json:"host,omitempty" doc:"The gate of its host in this server, if it was used."`
}

type targetsForm struct {
	open
	Targets []targetForm `json:"targets" doc:"The targets of this page, by name."`
	Next    string       `json:"next" doc:"The cursor of the next page; empty at the end."`
}

type pushHostForm struct {
	open
	Host     string   `json:"host" doc:"Scheme, name and port."`
	Open     bool     `json:"open" doc:"false: the gate admits nothing, or one probe."`
	Closed   duration `json:"closed,omitempty" doc:"How long it stays closed."`
	Limit    int      `json:"limit" doc:"Requests that it admits at once."`
	InFlight int      `json:"in_flight" doc:"Requests under way."`
	HeldBack int      `json:"held_back" doc:"Jobs that wait for their turn, about."`
	Usual    duration `json:"usual,omitempty" doc:"How long answers usually take."`
}

type pushHostsForm struct {
	open
	Hosts []pushHostForm `json:"hosts" doc:"The host that was used last first."`
}

type rotateForm struct {
	Overlap duration `json:"overlap,omitempty" doc:"How long the old secret signs, too; 0s ends it now. Bound: 0s to 30d. Default: 24h."`
	Secret  string   `json:"secret,omitempty" doc:"The new secret: whsec_ and 24 to 64 bytes as base64, or whsk_ and 32. Default: random."`
}

type pushSecretForm struct {
	open
	Secret     string `json:"secret" doc:"The key of v1 signatures, whsec_…"`
	PrivateKey string `json:"private_key" doc:"The private key of v1a signatures, whsk_…"`
	PublicKey  string `json:"public_key" doc:"The public key that verifies them, whpk_…"`
}

type pushTestForm struct {
	open
	Status    int      `json:"status,omitempty" doc:"The status of the answer; absent without an answer."`
	As        string   `json:"as" enum:"ack,nack,release,bury" doc:"How a job would be settled."`
	Error     string   `json:"error,omitempty" doc:"The error text that a job would have."`
	Took      duration `json:"took" doc:"How long the request took."`
	WebhookID string   `json:"webhook_id" doc:"The webhook-id of the request."`
}
