package wire

import (
	"github.com/dulymq/duly/contract"
)

func (f *fields) pools(pools *[]contract.PoolState) {
	f.answer("Pools")
	list(f, "pools", pools, required, "The pools, the default one first.", (*fields).pool)
}

func (f *fields) pool(p *contract.PoolState) {
	f.answer("Pool")
	f.text("name", &p.Name, required, "", "The pool's name.")
	f.bool("ready", &p.Ready, required, "Whether the pool's engine answers.")
}

// move says in which pool a namespace is. The fields Queues and Left are absent if the namespace
// does not move.
func (f *fields) move(m *contract.MoveState) {
	f.answer("Move")
	f.text("namespace", &m.Namespace, required, "", "The namespace's name.")
	f.text("pool", &m.Pool, required, "", "The pool that it is in, or moves to.")
	f.text("from", &m.From, optional, "", "The pool that it moves out of.")
	f.text("phase", (*string)(&m.Phase), optional, `enum:"prepare,drain"`, "The phase of the move.")
	f.time("since", &m.Since, optional, "When the phase began, on that server's clock.")

	// Zeros would look like a move that is almost finished.
	if f.task == writing && m.From == "" {
		return
	}

	f.int("queues", &m.Queues, always, "", "Queues that are left in the old pool.")
	f.nested("left", false, optional, "Jobs that are left in the old pool, per state.", func() {
		f.answer("Left")
		f.sizes(&m.Left)
	})
}

func (f *fields) moves(moves *[]contract.MoveState) {
	f.answer("Moves")
	list(f, "moves", moves, required, "The namespaces that move, or the one that was asked for.", (*fields).move)
}

// Moving is the request of a move.
type Moving struct {
	Namespace, To string
}

func (f *fields) moving(m *Moving) {
	f.request("Moving")
	f.name("namespace", &m.Namespace, required, `example:"shop"`, "The namespace to move.")
	f.name("to", &m.To, required, `example:"orders"`, "The pool to move it to.")
}

// ReadMoving reads the request of a move.
func ReadMoving(text string) (m Moving, err error) {
	if m, err = MovingForm.ReadRequest(text); err != nil {
		return m, err
	}
	var bad contract.BadFields
	if m.To == "" {
		bad.Add("to", "is missing; name the pool that the namespace is to move to")
	}
	if m.Namespace == "" {
		bad.Add("namespace", "is missing")
	}
	return m, bad.Err()
}

// place declares the request that places a namespace in a pool.
func (f *fields) place(pool *string) {
	f.request("Place")
	f.name("pool", pool, required, `example:"orders"`, "The pool for the namespace.")
}

// ReadPlace reads the request to place a namespace.
func ReadPlace(text string) (pool string, err error) {
	pool, err = PlaceForm.ReadRequest(text)
	if err == nil && pool == "" {
		err = missing("pool")
	}
	return pool, err
}
