package view

import (
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/dashboard/render"
)

// Operations is the list of a server's bulk operations. Again is its URL.
type Operations struct {
	Frame              Frame
	Server             string
	Rows               []OperationRow
	Again, First, Next render.Path
}

// OperationRow is one operation. Most is the number of its jobs, at least 1.
type OperationRow struct {
	ID, Title, State, Filter, By string
	To                           render.Path
	Queue                        Link
	Taken, Most                  int64
	Counts                       []Field
	Rate, Started, End           string
}

// Operation is one operation with its last answers, the newest first. Shown is set if the caller may see them.
type Operation struct {
	Frame   Frame
	Row     OperationRow
	Server  string
	Again   render.Path
	Buttons []Button
	Fields  []Field
	Shown   bool
	Answers []contract.OperationAnswer
}
