package wire

import "github.com/dulymq/duly"

func (f *fields) pools(pools *[]duly.PoolState) {
	f.answer("Pools")
	list(f, "pools", pools, required, "The pools, the default one first.", (*fields).pool)
}

func (f *fields) pool(p *duly.PoolState) {
	f.answer("Pool")
	f.text("name", &p.Name, required, "", "The pool's name.")
	f.bool("ready", &p.Ready, required, "Whether its engine answers.")
}

// AppendPools writes the pools of a server.
func AppendPools(dst []byte, pools []duly.PoolState) []byte {
	f := writer(dst)
	f.pools(&pools)
	return f.end()
}

// ReadPools reads the pools of a server.
func ReadPools(text string) (pools []duly.PoolState, err error) {
	err = readForm(text, Lenient, func(f *fields) { f.pools(&pools) })
	return pools, err
}

// move is where a namespace is. Queues and Left are absent if it does not move.
func (f *fields) move(m *duly.MoveState) {
	f.answer("Move")
	f.text("namespace", &m.Namespace, required, "", "The namespace's name.")
	f.text("pool", &m.Pool, required, "", "The pool that it is in, or moves to.")
	f.text("from", &m.From, optional, "", "The pool that it moves out of.")
	f.text("phase", (*string)(&m.Phase), optional, `enum:"prepare,drain"`, "The phase of the move.")
	f.time("since", &m.Since, optional, "When the phase began, on that server's clock.")
	if f.task == writing && m.From == "" {
		return
	}

	f.int("queues", &m.Queues, always, "", "Queues that are left in the old pool.")
	f.nested("left", false, optional, "Jobs that are left in the old pool, per state.", func() {
		f.answer("Left")
		f.sizes(&m.Left)
	})
}

// AppendMove writes where a namespace is.
func AppendMove(dst []byte, m *duly.MoveState) []byte {
	f := writer(dst)
	f.move(m)
	return f.end()
}

// ReadMove reads where a namespace is.
func ReadMove(text string) (m duly.MoveState, err error) {
	err = readForm(text, Lenient, func(f *fields) { f.move(&m) })
	return m, err
}

func (f *fields) moves(moves *[]duly.MoveState) {
	f.answer("Moves")
	list(f, "moves", moves, required, "The namespaces that move, or the one that was asked for.", (*fields).move)
}

// AppendMoves writes moves.
func AppendMoves(dst []byte, moves []duly.MoveState) []byte {
	f := writer(dst)
	f.moves(&moves)
	return f.end()
}

// ReadMoves reads moves.
func ReadMoves(text string) (moves []duly.MoveState, err error) {
	err = readForm(text, Lenient, func(f *fields) { f.moves(&moves) })
	return moves, err
}

// moving is the request of a move.
func (f *fields) moving(namespace, to *string) {
	f.request("Moving")
	f.name("namespace", namespace, required, `example:"shop"`, "The namespace to move.")
	f.name("to", to, required, `example:"orders"`, "The pool to move it to.")
}

// AppendMoving writes the request of a move.
func AppendMoving(dst []byte, namespace, to string) []byte {
	f := writer(dst)
	f.moving(&namespace, &to)
	return f.end()
}

// ReadMoving reads the request of a move.
func ReadMoving(text string, mode Mode) (namespace, to string, err error) {
	err = readForm(text, mode, func(f *fields) { f.moving(&namespace, &to) })
	if err != nil {
		return namespace, to, err
	}

	var bad duly.BadFields
	if to == "" {
		bad.Add("to", "is missing; name the pool that the namespace is to move to")
	}
	if namespace == "" {
		bad.Add("namespace", "is missing")
	}
	return namespace, to, bad.Err()
}

// place is the request to place a namespace.
func (f *fields) place(pool *string) {
	f.request("Place")
	f.name("pool", pool, required, `example:"orders"`, "The pool for the namespace.")
}

// AppendPlace writes the request to place a namespace.
func AppendPlace(dst []byte, pool string) []byte {
	f := writer(dst)
	f.place(&pool)
	return f.end()
}

// ReadPlace reads the request to place a namespace.
func ReadPlace(text string, mode Mode) (pool string, err error) {
	err = readForm(text, mode, func(f *fields) { f.place(&pool) })
	if err == nil && pool == "" {
		err = missing("pool")
	}
	return pool, err
}
