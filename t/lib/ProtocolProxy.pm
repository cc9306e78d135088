# ProtocolProxy.pm - stands between the coordinator and a node, and breaks the connection at a message
#
#   my $proxy = ProtocolProxy->new(port => $node->port);      # a separate process
#   $c->safe_psql("SELECT shardfdw.add_node('node1', '127.0.0.1', " . $proxy->port . ')');
#   $proxy->arm(from => 'node', n => 3, action => 'reset');   # counting starts here
#   ... a statement ...
#   $proxy->fired;                                            # how often the rule was used
#   $proxy->clear;                                            # as if nothing had been
#
# It knows where messages begin and end. They are counted over all connections, each direction by
# itself, from the last arm() on. A rule is a hash:
#
#   from     'node' or 'coordinator': the messages that are looked at
#   type     only messages of this type ('startup' for those without one)
#   n        the n-th of them (default 1); 0: every one
#
#   action   kill      the connection ends in order, before the message
#            reset     the connection is torn down (RST)
#            hang      from now on nothing comes through, on old and new connections
#
#            hold      the message, and what follows it in that direction, waits for release
#            delay     the same for ms milliseconds
#
#            replace   bytes go out in its place ('' swallows it)
#            nulls     for rows (type D): all values are null, except the first ones (keep)
#            repeat    the message goes out again and again, as fast as the other side takes it
#
#   bytes    for replace
#   ms       for delay
#   keep     for nulls: how many values stay (0)
#
# Cancel requests go through, unless it hangs, and are not counted. TLS and GSS encryption are refused.
# After clear, connections that hung are closed.

package ProtocolProxy;

use strict;
use warnings;

use Carp;
use Errno qw(EAGAIN EINTR EWOULDBLOCK);
use IO::Handle;
use IO::Socket::INET;
use POSIX ();
use Socket qw(:DEFAULT SO_LINGER IPPROTO_TCP TCP_NODELAY);
use Storable qw(freeze thaw);
use Time::HiRes qw(time usleep);

my $BUFFER_BYTES = 1 << 20;    # what is held for a side that does not read
my ($STARTUP_CODE_CANCEL, $STARTUP_CODE_SSL, $STARTUP_CODE_GSS) = (80877102, 80877103, 80877104);

my @controls;    # of all proxies of the test

# ---- in the test ---------------------------------------------------------------------------------

# new(port => of the node, host => '127.0.0.1')
sub new
{
	my ($class, %opt) = @_;
	my $listener = IO::Socket::INET->new(Listen => 100, LocalAddr => '127.0.0.1', LocalPort => 0, ReuseAddr => 1)
	  or croak "could not listen: $!";
	socketpair my $ours, my $theirs, AF_UNIX, SOCK_STREAM, PF_UNSPEC or croak "socketpair: $!";
	my $self = bless { port => $listener->sockport, control => $ours, owner => $$ }, $class;

	push @controls, $ours;
	$self->{pid} = fork // croak "fork: $!";
	if ($self->{pid} == 0)
	{
		# Also closes the control sockets of other proxies: a proxy ends when the last process
		# closes its control socket.
		CORE::close $_ for grep { defined } @controls;
		$SIG{$_} = 'DEFAULT' for qw(INT TERM ALRM __DIE__);
		eval { _serve($listener, $theirs, $opt{host} // '127.0.0.1', $opt{port}); 1 } or print STDERR "proxy: $@";
		POSIX::_exit(0);    # none of the parent's clean-up
	}
	return $self;
}

sub port { return $_[0]->{port}; }

sub arm { my ($self, %rule) = @_; return $self->_ask(arm => \%rule); }
sub clear   { return $_[0]->_ask('clear'); }
sub release { return $_[0]->_ask('release'); }
sub fired   { return $_[0]->_ask('fired'); }

# Type of the message that the rule was used on last, or undef.
sub fired_at { return $_[0]->_ask('fired_at'); }

# The messages since the last arm: a list of [from, type, length].
sub messages { return @{ $_[0]->_ask('messages') }; }

# How many connections go through it.
sub connections { return $_[0]->_ask('connections'); }

# Waits until the rule was used; false after seconds.
sub wait_fired
{
	my ($self, $seconds) = @_;
	my $end = time + $seconds;

	until ($self->fired)
	{
		return 0 if time > $end;
		usleep(3_000);
	}
	return 1;
}

sub stop
{
	my ($self) = @_;
	return unless $self->{pid} && $self->{owner} == $$;
	CORE::close $self->{control};
	waitpid $self->{pid}, 0;
	delete $self->{pid};
	return;
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $!, $@);
	$self->stop;
	return;
}

sub _send_frame
{
	my ($socket, $data) = @_;
	my $bytes = freeze([$data]);
	my $done  = 0;

	$bytes = pack('N', length $bytes) . $bytes;
	while ($done < length $bytes)
	{
		my $n = syswrite $socket, $bytes, length($bytes) - $done, $done;
		next if !defined $n && $! == EINTR;
		croak "proxy: $!" unless defined $n;
		$done += $n;
	}
	return;
}

# Undefined at the end.
sub _read_frame
{
	my ($socket) = @_;
	my ($bytes, $need) = ('', 4);

	while (length $bytes < $need)
	{
		my $n = sysread $socket, $bytes, $need - length $bytes, length $bytes;
		next if !defined $n && $! == EINTR;
		return undef unless $n;
		$need = 4 + unpack 'N', $bytes if $need == 4 && length $bytes == 4;
	}
	return thaw(substr $bytes, 4)->[0];
}

sub _ask
{
	my ($self, $verb, $argument) = @_;
	_send_frame($self->{control}, [ $verb, $argument ]);
	my $answer = _read_frame($self->{control});
	croak 'the proxy has died' unless $answer;
	return $answer->[0];
}

# ---- in the proxy's process ----------------------------------------------------------------------

# A connection: side 0 is the coordinator's, side 1 the node's. in: bytes from that side, out: bytes
# to that side.
my (@pairs, $rule, $matched, $fired, $fired_at, @seen, $hung);
my @side_name = ('coordinator', 'node');

sub _serve
{
	my ($listener, $control, $host, $port) = @_;

	$SIG{PIPE} = 'IGNORE';
	@pairs = ();
	$fired = $matched = $hung = 0;
	while (1)
	{
		my ($reads, $writes) = ('', '');
		my $timeout;

		vec($reads, fileno $control, 1) = 1;
		vec($reads, fileno $listener, 1) = 1;
		for my $pair (@pairs)
		{
			for my $side (0, 1)
			{
				my $socket = $pair->{socket}[$side] or next;
				vec($reads, fileno $socket, 1) = 1 if !$hung && !$pair->{eof}[$side] && length $pair->{out}[ 1 - $side ] < $BUFFER_BYTES && length $pair->{in}[$side] < 64 * $BUFFER_BYTES;
				vec($writes, fileno $socket, 1) = 1 if !$hung && length $pair->{out}[$side];
				next unless defined $pair->{until}[$side];
				my $left = $pair->{until}[$side] - time;
				$timeout = $left if !defined $timeout || $left < $timeout;
			}
		}
		$timeout = 0 if defined $timeout && $timeout < 0;
		my $n = select $reads, $writes, undef, $timeout;
		next if $n < 0;

		if (vec $reads, fileno $control, 1)
		{
			my $question = _read_frame($control) // return;
			_send_frame($control, [ _answer(@$question) ]);
			next;    # sockets may be closed now
		}
		_accept($listener, $host, $port) if vec $reads, fileno $listener, 1;
		for my $pair (@pairs)
		{
			next if $hung;
			for my $side (0, 1)
			{
				my $socket = $pair->{socket}[$side] or next;
				_write_some($pair, $side) if vec $writes, fileno $socket, 1;
				_read_some($pair, $side)  if $pair->{socket}[$side] && vec $reads, fileno $socket, 1;
				if (defined $pair->{until}[$side] && time >= $pair->{until}[$side])
				{
					$pair->{until}[$side] = undef;
					$pair->{held}[$side]  = 0;
				}
				_pass($pair, $side);
			}
			_end_when_done($pair);
		}
		@pairs = grep { $_->{socket}[0] || $_->{socket}[1] } @pairs;
	}
	return;
}

sub _answer
{
	my ($verb, $argument) = @_;

	if ($verb eq 'arm')
	{
		($rule, $matched, $fired, $fired_at, @seen) = ({ n => 1, %$argument }, 0, 0, undef);
	}
	elsif ($verb eq 'clear' || $verb eq 'release')
	{
		if ($verb eq 'clear')
		{
			# held messages are dropped, because their connection ends
			for my $pair (grep { $hung || $_->{broken} } @pairs) { _close($pair, 0); }
			$hung = 0;
			$rule = undef;
		}
		for my $pair (@pairs)
		{
			$pair->{held}  = [ 0, 0 ];
			$pair->{until} = [ undef, undef ];
			next unless $pair->{socket}[0];
			_pass($pair, $_) for 0, 1;
			_end_when_done($pair);
		}
		@pairs = grep { $_->{socket}[0] || $_->{socket}[1] } @pairs;
	}
	elsif ($verb eq 'fired')       { return $fired; }
	elsif ($verb eq 'fired_at')    { return $fired_at; }
	elsif ($verb eq 'messages')    { return [@seen]; }
	elsif ($verb eq 'connections') { return scalar @pairs; }
	return 1;
}

sub _accept
{
	my ($listener, $host, $port) = @_;
	my $client = $listener->accept or return;
	my $pair   = { socket => [ $client, undef ], in => [ '', '' ], out => [ '', '' ], eof => [ 0, 0 ], held => [ 0, 0 ], until => [ undef, undef ], startup => 1, again => [ undef, undef ] };

	# a node that hangs accepts connections, as its kernel does, but sends nothing
	my $server = IO::Socket::INET->new(PeerAddr => $host, PeerPort => $port, Timeout => 5);
	if (!$server)
	{
		CORE::close $client;
		return;
	}
	$pair->{socket}[1] = $server;
	for my $socket ($client, $server)
	{
		$socket->blocking(0);
		setsockopt $socket, IPPROTO_TCP, TCP_NODELAY, 1;
	}
	push @pairs, $pair;
	return;
}

# Ends the connection, normally or by RST. First sends the bytes that are left.
sub _close
{
	my ($pair, $reset) = @_;

	for my $side (0, 1)
	{
		my $socket = $pair->{socket}[$side] or next;
		if ($reset && $side == 0)
		{
			setsockopt $socket, SOL_SOCKET, SO_LINGER, pack('ii', 1, 0);
		}
		else
		{
			_write_some($pair, $side);
			shutdown $socket, 1 if $pair->{socket}[$side];
			# data that has arrived and is not read would turn the close into RST
			1 while sysread $socket, my $rest, 1 << 16;
		}
		CORE::close $socket;
		$pair->{socket}[$side] = undef;
	}
	return;
}

sub _write_some
{
	my ($pair, $side) = @_;
	my $n = syswrite $pair->{socket}[$side], $pair->{out}[$side], 1 << 16;

	if (defined $n) { substr($pair->{out}[$side], 0, $n) = ''; }
	elsif ($! != EAGAIN && $! != EWOULDBLOCK && $! != EINTR) { $pair->{eof}[$side] = 1; $pair->{out}[$side] = ''; }
	return;
}

sub _read_some
{
	my ($pair, $side) = @_;
	my $n = sysread $pair->{socket}[$side], $pair->{in}[$side], 1 << 16, length $pair->{in}[$side];

	return if !defined $n && ($! == EAGAIN || $! == EWOULDBLOCK || $! == EINTR);
	$pair->{eof}[$side] = 1 unless $n;
	return;
}

# One side has closed the connection: sends the rest to the other side, then closes that, too.
sub _end_when_done
{
	my ($pair) = @_;
	for my $side (0, 1)
	{
		my $socket = $pair->{socket}[$side] or next;
		my $other = 1 - $side;
		next unless $pair->{eof}[$side] && !$pair->{held}[$side];
		next if length $pair->{out}[$other] && !$pair->{eof}[$other];
		_close($pair, 0);
		return;
	}
	return;
}

# The length of the first message from side, or 0 if it has not arrived completely.
sub _message_bytes
{
	my ($pair, $side) = @_;
	my $at = $side == 0 && $pair->{startup} ? 0 : 1;
	my $have = length $pair->{in}[$side];

	return 0 if $have < $at + 4;
	my $len = $at + unpack 'N', substr $pair->{in}[$side], $at, 4;
	return $have < $len ? 0 : $len;
}

# Hands messages from side on to the other one.
sub _pass
{
	my ($pair, $side) = @_;
	my $other = 1 - $side;

	while ($pair->{socket}[$side] && !$hung && !$pair->{held}[$side])
	{
		if (defined $pair->{again}[$side])
		{
			$pair->{out}[$other] .= $pair->{again}[$side] while length $pair->{out}[$other] < $BUFFER_BYTES;
			return;
		}
		my $len = _message_bytes($pair, $side) or return;
		my $message = substr $pair->{in}[$side], 0, $len;
		my $type = $side == 0 && $pair->{startup} ? 'startup' : substr $message, 0, 1;

		if ($type eq 'startup')
		{
			my $code = $len >= 8 ? unpack 'N', substr $message, 4, 4 : 0;
			if ($code == $STARTUP_CODE_SSL || $code == $STARTUP_CODE_GSS)
			{
				substr($pair->{in}[0], 0, $len) = '';
				$pair->{out}[0] .= 'N';
				next;
			}
			$pair->{startup} = 0;
			$pair->{cancel} = $code == $STARTUP_CODE_CANCEL;
		}
		if (!$pair->{cancel})
		{
			push @seen, [ $side_name[$side], $type, $len ] if @seen < 10_000;
			return unless _apply_rule($pair, $side, $type, $len);
		}
		substr($pair->{in}[$side], 0, $len) = '';
		$pair->{out}[$other] .= $message;
		_write_some($pair, $other) if $pair->{socket}[$other];
	}
	return;
}

# Returns true if the message is to be sent unchanged. Its first $len bytes are still in the buffer.
sub _apply_rule
{
	my ($pair, $side, $type, $len) = @_;

	return 1 if !$rule || !$rule->{action} || $rule->{from} ne $side_name[$side];
	return 1 if defined $rule->{type} && $rule->{type} ne $type;
	$matched++;
	return 1 if $rule->{n} && $matched != $rule->{n};
	$fired++;
	$fired_at = $type;
	my $action = $rule->{action};
	if ($action eq 'kill' || $action eq 'reset')
	{
		_close($pair, $action eq 'reset');
	}
	elsif ($action eq 'hang')
	{
		$hung = 1;
		# the end of the connection must not be mistaken for the rule's message later
		$pair->{broken} = 1;
	}
	elsif ($action eq 'hold' || $action eq 'delay')
	{
		$pair->{held}[$side] = 1;
		$pair->{until}[$side] = time + $rule->{ms} / 1000 if $action eq 'delay';
		$pair->{startup} = 1 if $type eq 'startup';
		pop @seen;
	}
	elsif ($action eq 'replace')
	{
		substr($pair->{in}[$side], 0, $len) = '';
		$pair->{out}[ 1 - $side ] .= $rule->{bytes};
		_pass($pair, $side);
	}
	elsif ($action eq 'nulls')
	{
		my ($n, $fields) = unpack 'x5na*', substr $pair->{in}[$side], 0, $len, '';
		my $body = '';
		for my $i (1 .. $n)
		{
			my $size = unpack 'l>', $fields;
			my $field = substr $fields, 0, 4 + ($size > 0 ? $size : 0), '';
			$body .= $i <= ($rule->{keep} // 0) ? $field : pack 'l>', -1;
		}
		$pair->{out}[ 1 - $side ] .= 'D' . pack('Nn', 6 + length $body, $n) . $body;
		_pass($pair, $side);
	}
	elsif ($action eq 'repeat')
	{
		$pair->{again}[$side] = substr $pair->{in}[$side], 0, $len;
		_pass($pair, $side);
	}
	return 0;
}

1;
