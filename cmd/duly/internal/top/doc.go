// Package top is the live view of queues behind `duly top`.
//
// It asks an engine for the stats of every queue, again and again ([Sampler]),
// makes rates of the differences of counters ([Model]), and draws a table of as
// many rows as the terminal has ([Model.View]). Nothing of it needs more than the
// contract's Queues and Stats, so it works over every URL; where the engine is a
// [duly.Surveyor] a thousand queues are one request.
//
// # Rates
//
// A rate is what a counter has grown by between two samples, divided by the time
// between them on this machine. The first sample has none. A counter that has
// become smaller belongs to a queue that was destroyed and made again: its rate is
// not known until the next sample. While the view is frozen nothing is asked, and
// the first sample after it has that time in its rates.
//
// # The terminal
//
// The view takes the terminal's second screen, in raw mode, and gives both back
// whatever ends it. It is drawn from the top, each line cleared to its end, so
// nothing flickers; a line is cut at the terminal's width, and columns that have
// no room are left out, the least important first. What the engine logs meanwhile
// would be written over it, so it comes by [Live.Log]: the newest line stands above
// the table until the next key.
package top
