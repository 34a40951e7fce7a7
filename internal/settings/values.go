package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The types of variables. Each reads itself from text, and its error goes on
// from the name of the variable: "ONCEWARD_X is no …: give …".

// Whole reads a whole number from least to most.
func Whole(text []byte, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("is %q: give a whole number from %d to %d", text, least, most)
	}
	return n, nil
}

// Duration reads a duration with its unit from least to most.
func Duration(text []byte, least, most time.Duration, such string) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(string(text)))
	if err != nil || d < least || d > most {
		return 0, fmt.Errorf("is %q: give a duration with its unit, from %s to %s, such as %s", text, least, most, such)
	}
	return d, nil
}

// OneOf reads one of the words, in any case, and returns it as it is listed.
func OneOf(text []byte, words ...string) (string, error) {
	for _, word := range words {
		if strings.EqualFold(word, strings.TrimSpace(string(text))) {
			return word, nil
		}
	}
	last := len(words) - 1
	return "", fmt.Errorf("is %q: give %s or %s", text, strings.Join(words[:last], ", "), words[last])
}

// Switch is on or off.
type Switch bool

// UnmarshalText reads true or false.
func (s *Switch) UnmarshalText(text []byte) error {
	word, err := OneOf(text, "true", "false")
	*s = word == "true"
	return err
}

// ListenAddr is where a process listens.
type ListenAddr string

// UnmarshalText reads host:port with a port from 0 to 65535.
func (a *ListenAddr) UnmarshalText(text []byte) error {
	_, port, err := net.SplitHostPort(string(text))
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("is %q: give host:port with a port from 0 to 65535, such as 127.0.0.1:8080 or :8080", text)
	}
	*a = ListenAddr(text)
	return nil
}

// LogLevel is how much is logged.
type LogLevel slog.Level

// UnmarshalText reads the name of a level.
func (l *LogLevel) UnmarshalText(text []byte) error {
	word, err := OneOf(text, "debug", "info", "warn", "error")
	if err != nil {
		return err
	}
	return (*slog.Level)(l).UnmarshalText([]byte(word))
}

// String is how it is written in a variable.
func (l LogLevel) String() string { return strings.ToLower(l.Slog().String()) }

// Slog is for what takes a slog.Level.
func (l LogLevel) Slog() slog.Level { return slog.Level(l) }

// Database is where a process finds its database, by either of two variables.
type Database struct {
	DatabaseURL     DatabaseURL `env:"ONCEWARD_DATABASE_URL" secret:"true" unit:"URL" help:"PostgreSQL 15 or newer, as postgres://user:password@host:port/database; this or ONCEWARD_DATABASE_URL_FILE is required"`
	DatabaseURLFile DatabaseURL `env:"ONCEWARD_DATABASE_URL_FILE,file" secret:"true" unit:"path" help:"file to read it from instead, such as a mounted secret"`
}

// URL is the database's.
func (d Database) URL() string { return string(d.DatabaseURL + d.DatabaseURLFile) }

// Check adds to the faults of Read what is wrong with the two: exactly one is
// set, and check can read it. The error of check must not repeat the URL.
func (d Database) Check(faults []error, check func(databaseURL string) error) []error {
	const inText, inFile = "ONCEWARD_DATABASE_URL", "ONCEWARD_DATABASE_URL_FILE"
	switch {
	case slices.ContainsFunc(faults, func(err error) bool { return strings.HasPrefix(err.Error(), inFile+" ") }):
		return faults
	case d.DatabaseURL != "" && d.DatabaseURLFile != "":
		return append(faults, errors.New(inText+" and "+inFile+" are both set: keep one"))
	case d.URL() == "":
		return append(faults, errors.New(inText+" is not set: name the database, for example postgres://user@host:5432/onceward, or a file that holds its URL by "+inFile))
	}
	if err := check(d.URL()); err != nil {
		name := inText
		if d.DatabaseURL == "" {
			name = inFile
		}
		return append(faults, fmt.Errorf("%s cannot be read: %w", name, err))
	}
	return faults
}

// DatabaseURL holds a password as a rule: it is used, never shown.
type DatabaseURL string

// UnmarshalText takes what stands there, without the line end of a file.
func (u *DatabaseURL) UnmarshalText(text []byte) error {
	*u = DatabaseURL(strings.TrimSpace(string(text)))
	return nil
}

// String keeps it out of logs.
func (u DatabaseURL) String() string { return "[redacted]" }

// GoString keeps it out of %#v.
func (u DatabaseURL) GoString() string { return "[redacted]" }

// LogValue keeps it out of slog.
func (u DatabaseURL) LogValue() slog.Value { return slog.StringValue(u.String()) }
