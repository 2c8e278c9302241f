package config

import "strings"

// unknown says of a key that it is none, and which one may be meant.
func unknown(key string) string {
	if near := nearest(key); near != "" {
		return "is no setting; did you mean " + near + "?"
	}
	return "is no setting; docs/configuration.md lists them"
}

// nearest is the known key that a mistyped one may mean, "" where none is near.
func nearest(key string) string {
	_, last := cutLast(key)
	near := nearTo(key)
	for _, s := range Table {
		d := distance(key, s.Key)
		if _, own := cutLast(s.Key); own == last && own != s.Key { // in another table
			d = min(d, 1)
		}
		near.see(s.Key, d)
	}
	return near.best
}

// nearby finds the name that is nearest to a mistyped one.
type nearby struct {
	best  string // "" where none is near
	least int    // a name must be nearer than that
}

func nearTo(name string) nearby { return nearby{least: 1 + max(2, len(name)/4)} }

func (n *nearby) see(name string, distance int) {
	if distance < n.least {
		n.best, n.least = name, distance
	}
}

// Near finds the existing name that is nearest to a mistyped one.
type Near struct {
	name string
	nearby
}

// NearTo returns a Near that has seen no name yet. It accepts one wrong letter in
// a short name, else two, or a quarter of the letters.
func NearTo(name string) *Near {
	const short = 3
	n := &Near{name, nearTo(name)}
	if len(name) <= short {
		n.least = 2
	}
	return n
}

// See adds a name that exists.
func (n *Near) See(name string) { n.see(name, distance(n.name, name)) }

// Best returns the nearest name, or "" if none is near.
func (n *Near) Best() string { return n.best }

// cutLast cuts a key before its last name.
func cutLast(key string) (table, name string) {
	at := strings.LastIndexByte(key, '.')
	return key[:max(at, 0)], key[at+1:]
}

// distance is how many letters must be put in, left out or changed to make one
// text of the other; "_", "-" and "." count as one letter, as do its two cases.
func distance(a, b string) int {
	plain := strings.NewReplacer("-", "_", ".", "_")
	a, b = plain.Replace(strings.ToLower(a)), plain.Replace(strings.ToLower(b))
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
