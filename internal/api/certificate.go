package api

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificateMaxAge is how long the files are not looked at again.
const certificateMaxAge = 5 * time.Second

// certificate is a certificate and its key in files that somebody renews. New
// connections get what the files held at most certificateMaxAge ago; where they
// cannot be read or do not belong together, what they held before.
type certificate struct {
	certFile, keyFile string
	logger            *slog.Logger
	nowFunc           func() time.Time

	mu       sync.Mutex // guards what follows
	looked   time.Time
	modified [2]time.Time // of the files when current was read
	current  *tls.Certificate
}

// newCertificate reads the files; its error names them.
func newCertificate(certFile, keyFile string, logger *slog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, logger: logger, nowFunc: time.Now}
	modified, err := c.modifiedAt()
	if err != nil {
		return nil, fmt.Errorf("the TLS certificate: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("the TLS certificate %s with the key %s: %w", certFile, keyFile, err)
	}
	c.modified, c.current, c.looked = modified, &pair, c.nowFunc()
	return c, nil
}

func (c *certificate) modifiedAt() (at [2]time.Time, err error) {
	for i, name := range []string{c.certFile, c.keyFile} {
		info, statErr := os.Stat(name) // follows the links by which a mounted secret is renewed
		if statErr != nil {
			err = errors.Join(err, statErr)
			continue
		}
		at[i] = info.ModTime()
	}
	return at, err
}

// get is tls.Config's GetCertificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.nowFunc(); now.Sub(c.looked) >= certificateMaxAge {
		c.looked = now
		c.reload()
	}
	return c.current, nil
}

// reload takes what the files hold, if that has changed. The caller has mu.
func (c *certificate) reload() {
	modified, err := c.modifiedAt()
	if err == nil && modified == c.modified {
		return
	}
	var pair tls.Certificate
	if err == nil {
		pair, err = tls.LoadX509KeyPair(c.certFile, c.keyFile)
	}
	if err != nil {
		c.logger.Error("the TLS certificate cannot be read again: the one before is kept", slog.String("file", c.certFile), slog.Any("error", err))
		return
	}
	c.modified, c.current = modified, &pair
	c.logger.Info("the TLS certificate was read again", slog.Time("not_after", pair.Leaf.NotAfter))
}
