package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/onceward/onceward/internal/keys"
)

const (
	// headerTimeout is for the request line and the header.
	headerTimeout = 10 * time.Second
	// bodyTimeout is for header and body together. It is lifted once the body
	// is in (exchange.readBody), so it does not count against a wait.
	bodyTimeout = 60 * time.Second
	// answerTimeout is from the end of the header to the last byte of the
	// answer: body, the longest wait, and a slow reader. Batches extend it as
	// they write.
	answerTimeout = bodyTimeout + keys.MaxWait + 30*time.Second
	// idleTimeout is how long a connection is kept for the next request.
	idleTimeout = 2 * time.Minute
	// maxHeaderBytes has room for a JWT and a body_ref beside the usual.
	maxHeaderBytes = 32 << 10

	defaultShutdownTimeout = 8 * time.Second
)

// NewServer makes the HTTP server of one listener, with the time-outs that
// keep a slow or silent peer from holding it.
func NewServer(handler http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
		// OPTIONS * gets the router's answer like any address that is not there.
		DisableGeneralOptionsHandler: true,
	}
}

// ServeConfig says where and how Serve listens.
type ServeConfig struct {
	PublicAddr   string // host:port; port 0 takes a free one
	OperatorAddr string // host:port; port 0 takes a free one
	// CertFile and KeyFile, where given, make the public listener speak TLS. They
	// are read again when they change.
	CertFile, KeyFile string
	// ShutdownTimeout is how long running requests are given at the end; zero
	// means 8 s.
	ShutdownTimeout time.Duration
	// Started is told the real addresses once both listeners accept; nil: nobody is.
	Started func(Addresses)
}

// scheme is what the public listener speaks.
func (s ServeConfig) scheme() string {
	if s.CertFile != "" {
		return "https"
	}
	return "http"
}

// withTLS is the public listener, which speaks TLS 1.2 or newer where there is
// a certificate.
func (s ServeConfig) withTLS(public net.Listener, logger *slog.Logger) (net.Listener, error) {
	if s.CertFile == "" {
		return public, nil
	}
	c, err := newCertificate(s.CertFile, s.KeyFile, logger)
	if err != nil {
		return nil, err
	}
	return tls.NewListener(public, &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}), nil
}

// Addresses are where a process listens, and what it calls itself.
type Addresses struct {
	Public   net.Addr
	Operator net.Addr
	LocalURL string // where a process on this machine reaches the public listener
	BaseURL  string // Config.BaseURL, or http:// and the public address
}

// Serve answers both listeners until ctx ends. Then readiness goes off, parked
// waits answer, running requests finish, and the listeners close, in this
// order. It returns nil after a clean end; an error where it could not listen,
// where a listener broke, or where requests outlasted the time-out.
func Serve(ctx context.Context, c Config, s ServeConfig) error {
	var listen net.ListenConfig
	public, err := listen.Listen(ctx, "tcp", s.PublicAddr)
	if err != nil {
		return fmt.Errorf("listen for the API: %w", err)
	}
	defer closeQuietly(public)
	operator, err := listen.Listen(ctx, "tcp", s.OperatorAddr)
	if err != nil {
		return fmt.Errorf("listen for the operator: %w", err)
	}
	defer closeQuietly(operator)

	if c.BaseURL == "" {
		c.BaseURL = s.scheme() + "://" + reachable(public.Addr())
	}
	a, err := New(c)
	if err != nil {
		return err
	}
	if public, err = s.withTLS(public, a.logger); err != nil {
		return err
	}
	servers := []*http.Server{NewServer(a.Public(), a.logger), NewServer(a.Operator(), a.logger)}
	failed := make(chan error, len(servers))
	for i, listener := range []net.Listener{public, operator} {
		go func() { failed <- servers[i].Serve(listener) }()
	}
	if s.Started != nil {
		s.Started(Addresses{public.Addr(), operator.Addr(), s.scheme() + "://" + reachable(public.Addr()), a.baseURL})
	}

	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("serve: %w", err)
	}
	return errors.Join(err, shutDown(context.WithoutCancel(ctx), a, servers, s.ShutdownTimeout))
}

// shutDown ends in an order in which nothing is cut off that could be answered.
// ctx is one that has not ended.
func shutDown(ctx context.Context, a *API, servers []*http.Server, timeout time.Duration) error {
	if timeout == 0 {
		timeout = defaultShutdownTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	a.Drain()
	var errs []error
	for _, server := range servers { // the public one first: /readyz of the operator says why to the end
		if err := server.Shutdown(ctx); err != nil {
			// A request that was never sent whole, as a rule. Cutting it off is
			// no failure: its caller repeats it (wire contract, section 8).
			a.logger.Warn("requests were still running when the time of the shutdown was over: they were cut off", slog.Duration("timeout", timeout), slog.Any("error", err))
			if err := server.Close(); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// reachable is addr as another process on this machine would dial it.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", fmt.Sprint(tcp.Port))
	}
	return addr.String()
}

// closeQuietly is for a listener that its server has usually closed already.
func closeQuietly(l net.Listener) { _ = l.Close() }
