package wire

import "github.com/dulymq/duly"

// AppendPools writes a server's pools.
func AppendPools(dst []byte, pools []duly.PoolState) []byte {
	o := begin(dst)
	list(&o, "pools", pools, func(dst []byte, p *duly.PoolState) []byte {
		o := begin(dst)
		o.string("name", p.Name)
		o.bool("ready", p.Ready)
		return o.end()
	})
	return o.end()
}

// ReadPools reads a server's pools.
func ReadPools(text string) (pools []duly.PoolState, err error) {
	err = readList(text, "pools", func(r *reader) {
		var p duly.PoolState
		for key := range r.object {
			switch key {
			case "name":
				p.Name = r.string(key)
			case "ready":
				p.Ready = r.boolean(key)
			default:
				r.unknown(key)
			}
		}
		pools = append(pools, p)
	}, nil)
	return pools, err
}

// AppendMove writes where a namespace is. What goes with a move alone is left
// out where there is none.
func AppendMove(dst []byte, m *duly.MoveState) []byte {
	o := begin(dst)
	o.string("namespace", m.Namespace)
	o.string("pool", m.Pool)
	o.text("from", m.From)
	o.text("phase", string(m.Phase))
	o.time("since", m.Since)
	if m.From != "" {
		o.int("queues", int64(m.Queues))
		o.key("left")
		o.dst = appendSizes(o.dst, &m.Left)
	}
	return o.end()
}

// AppendMoves writes moves.
func AppendMoves(dst []byte, moves []duly.MoveState) []byte {
	o := begin(dst)
	list(&o, "moves", moves, AppendMove)
	return o.end()
}

// ReadMove reads where a namespace is.
func ReadMove(text string) (m duly.MoveState, err error) {
	err = parse(text, Lenient, func(r *reader) { r.move(&m) })
	return m, err
}

// ReadMoves reads moves.
func ReadMoves(text string) (moves []duly.MoveState, err error) {
	err = readList(text, "moves", func(r *reader) {
		var m duly.MoveState
		r.move(&m)
		moves = append(moves, m)
	}, nil)
	return moves, err
}

func (r *reader) move(m *duly.MoveState) {
	for key := range r.object {
		switch key {
		case "namespace":
			m.Namespace = r.string(key)
		case "pool":
			m.Pool = r.string(key)
		case "from":
			m.From = r.string(key)
		case "phase":
			m.Phase = duly.MovePhase(r.string(key))
		case "since":
			m.Since = r.time(key)
		case "queues":
			m.Queues = int(r.int(key))
		case "left":
			r.sizes(&m.Left)
		default:
			r.unknown(key)
		}
	}
}

// AppendMoving writes the request of a move.
func AppendMoving(dst []byte, namespace, to string) []byte {
	o := begin(dst)
	o.string("namespace", namespace)
	o.string("to", to)
	return o.end()
}

// ReadMoving reads the request of a move.
func ReadMoving(text string, mode Mode) (namespace, to string, err error) {
	err = parse(text, mode, func(r *reader) {
		for key := range r.object {
			switch key {
			case "namespace":
				namespace = r.name(key)
			case "to":
				to = r.name(key)
			default:
				r.unknown(key)
			}
		}
		if to == "" {
			r.bad("to", "is missing; name the pool that the namespace is to move to")
		}
		if namespace == "" {
			r.bad("namespace", "is missing")
		}
	})

	return namespace, to, err
}

// AppendPlace writes the request to place a namespace.
func AppendPlace(dst []byte, pool string) []byte {
	o := begin(dst)
	o.string("pool", pool)
	return o.end()
}

// ReadPlace reads the request to place a namespace.
func ReadPlace(text string, mode Mode) (pool string, err error) {
	err = parse(text, mode, func(r *reader) {
		for key := range r.object {
			if key == "pool" {
				pool = r.name(key)
			} else {
				r.unknown(key)
			}
		}
		if pool == "" {
			r.bad("pool", "is missing")
		}
	})
	return pool, err
}
