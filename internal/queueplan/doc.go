// Package queueplan computes the effects of a change of a queue's configuration before it is made.
//
// A [Plan] has the settings that would change, with their values before and after, and the effects on the jobs of the
// queue now: jobs that would be dropped, pushes that would be refused, workers that would wait. Making a plan changes
// nothing. It takes at most three calls to the engine.
package queueplan
