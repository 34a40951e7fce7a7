package worker

import (
	"time"

	"github.com/riverqueue/river"
	"github.com/robfig/cron/v3"
)

const (
	queueMaintenance = "maintenance"
	queueRollUp      = "roll_up"
)

// schedule is a job that runs by the clock, in UTC.
type schedule struct {
	args river.JobArgs
	// at is a cron expression with seconds.
	at string
	// slot is the length of the slots, counted from midnight UTC, of which each
	// gets one job, however often workers restart and whoever schedules.
	slot time.Duration
	opts river.InsertOpts
}

// schedules is everything that runs by the clock: one line per job.
func schedules() []schedule {
	return []schedule{
		{rollUpArgs{}, "*/10 * * * * *", 10 * time.Second, river.InsertOpts{Queue: queueRollUp, MaxAttempts: 2}},
		{pruneArgs{}, "0 7 * * * *", time.Hour, river.InsertOpts{Queue: queueMaintenance, MaxAttempts: 8}},
		{applyRetentionsArgs{}, "30 * * * * *", time.Minute, river.InsertOpts{Queue: queueMaintenance, MaxAttempts: 2}},
		{removeTenantsArgs{}, "0 3/10 * * * *", 10 * time.Minute, river.InsertOpts{Queue: queueMaintenance, MaxAttempts: 4}},
		{recountUsageArgs{}, "0 2/5 * * * *", 5 * time.Minute, river.InsertOpts{Queue: queueMaintenance, MaxAttempts: 2}},
		{keepSearchArgs{}, "45 * * * * *", time.Minute, river.InsertOpts{Queue: queueMaintenance, MaxAttempts: 2}},
		{housekeepArgs{}, "0 22 * * * *", time.Hour, river.InsertOpts{Queue: queueMaintenance, MaxAttempts: 8}},
	}
}

// periodicJobs are the schedules as River takes them. River keeps no state of
// them: who becomes the leader begins anew, and inserts each job at once. A
// worker that restarts more often than a job's interval therefore still runs
// it, and the slot, which is part of what makes a job unique, keeps it to one.
func periodicJobs() []*river.PeriodicJob {
	var list []*river.PeriodicJob
	for _, s := range schedules() {
		opts := s.opts
		opts.UniqueOpts = river.UniqueOpts{ByArgs: true, ByPeriod: s.slot}
		list = append(list, river.NewPeriodicJob(
			mustParse(s.at),
			func() (river.JobArgs, *river.InsertOpts) { return s.args, &opts },
			&river.PeriodicJobOpts{RunOnStart: true},
		))
	}
	return list
}

// mustParse reads a cron expression of this file. UTC, since a local clock
// skips or repeats an hour twice a year.
func mustParse(expression string) cron.Schedule {
	parser := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	parsed, err := parser.Parse("CRON_TZ=UTC " + expression)
	if err != nil {
		panic(err) // a constant that a test has parsed
	}
	return parsed
}
