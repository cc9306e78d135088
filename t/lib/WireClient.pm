# WireClient.pm - a client of the server's own protocol, for tests that have to say which bytes go
# into which message
#
#   my $client = WireClient->new($cluster->coordinator, 'postgres');
#   my $result = $client->query('COPY t FROM STDIN', "1\t", "2\n");
#
# A result is a hash. Its field rows has lists of values, with undef for NULL. Its field copied has the
# bytes of COPY TO STDOUT. Its field tags has the tags of the commands. Its fields notices and error
# have hashes by the field names of the protocol: C is the SQLSTATE, M the message, D the detail, W the
# context. If there was no error, error is undef. Values are bytes, and are not decoded.
#
# To act while a query runs:
#
#   $client->start_query('SELECT ...');
#   $client->cancel;
#   my $result = $client->finish_query(5);    # undef when it has not ended after 5 seconds
#
# The extended protocol, message by message (the packets are what the test makes of them):
#
#   $client->send_bytes(parse_message('', 'INSERT ...') . bind_message('', '', 1, 2));
#   $client->wait_until_taken;                # the server has read all that was sent
#   $client->send_bytes(execute_message('') . sync_message());
#   my @messages = $client->read_messages;    # [ type, payload ], up to ReadyForQuery

package WireClient;

use strict;
use warnings;

use Carp;
use Errno;
use Exporter 'import';
use IO::Socket::UNIX;
use Time::HiRes qw(time usleep);

our @EXPORT_OK = qw(message parse_message bind_message execute_message describe_message close_message flush_message sync_message);

# new(server, dbname, %parameters): connects. parameters: those of the startup message.
sub new
{
	my ($class, $server, $dbname, %parameter) = @_;
	my $path = $server->host . '/.s.PGSQL.' . $server->port;
	my $socket = IO::Socket::UNIX->new(Type => SOCK_STREAM(), Peer => $path)
	  or croak "could not connect to $path: $!";
	my $self = bless { path => $path, socket => $socket, buffer => '', notices => [] }, $class;

	%parameter = (user => (getpwuid $<)[0], database => $dbname, %parameter);
	my $body = pack 'N', 196608;
	$body .= "$_\0$parameter{$_}\0" for sort keys %parameter;
	$self->_write(pack('N', length($body) + 5) . "$body\0");
	while (1)
	{
		my ($type, $payload) = $self->_read_message;
		$self->{status} = $payload if $type eq 'Z';
		last if $type eq 'Z';
		$self->{key} = $payload if $type eq 'K';
		croak 'could not log in: ' . (_fields($payload)->{M} // '') if $type eq 'E';
		croak 'the server asks for a password' if $type eq 'R' && unpack('N', $payload) != 0;
	}
	return $self;
}

sub close
{
	my ($self) = @_;
	return unless $self->{socket};
	$self->_write("X\0\0\0\4");
	CORE::close $self->{socket};
	delete $self->{socket};
	return;
}

# query(sql, data...): runs one or several statements in one message. If one of them is COPY FROM
# STDIN, each element of data is sent as one message of copy data.
sub query
{
	my ($self, $sql, @data) = @_;
	$self->start_query($sql, @data);
	return $self->finish_query;
}

# The rows of a result of query(), or the number of lines that COPY has sent, or the SQLSTATE.
sub shown
{
	my ($result) = @_;
	return $result->{error}{C} if $result->{error};
	return scalar split /\n/, $result->{copied} if length($result->{copied} // '');
	return join ' ', map { join '|', @$_ } @{ $result->{rows} };
}

sub start_query
{
	my ($self, $sql, @data) = @_;
	$self->{data} = \@data;
	$self->{result} = { rows => [], tags => [], notices => [], copied => '' };
	$self->_write('Q' . pack('N', length($sql) + 5) . "$sql\0");
	return;
}

# May be called again when it has returned undef.
sub finish_query
{
	my ($self, $seconds) = @_;
	my $result = $self->{result};
	my @data = @{ $self->{data} };

	local $self->{until} = defined $seconds ? time + $seconds : undef;
	while (1)
	{
		my ($type, $payload) = $self->_read_message;
		return undef unless defined $type;
		if ($type eq 'Z')
		{
			$self->{status} = $payload;    # I, T or E
			last;
		}
		elsif ($type eq 'D') { push @{ $result->{rows} }, _values($payload); }
		elsif ($type eq 'd') { $result->{copied} .= $payload; }
		elsif ($type eq 'C') { push @{ $result->{tags} }, substr $payload, 0, -1; }
		elsif ($type eq 'E') { $result->{error} = _fields($payload); }
		elsif ($type eq 'N') { push @{ $result->{notices} }, _fields($payload); }
		elsif ($type eq 'G')
		{
			$self->_write(join('', map { 'd' . pack('N', length($_) + 4) . $_ } @data) . "c\0\0\0\4");
		}
	}
	return $result;
}

# ---- messages ------------------------------------------------------------------------------------

sub message { my ($type, $body) = @_; return $type . pack('N', 4 + length $body) . $body; }
sub parse_message { my ($name, $sql) = @_; return message('P', "$name\0$sql\0\0\0"); }
sub execute_message { my ($portal, $nrows) = @_; return message('E', "$portal\0" . pack 'N', $nrows // 0); }
sub describe_message { my ($portal) = @_; return message('D', "P$portal\0"); }
sub close_message { my ($portal) = @_; return message('C', "P$portal\0"); }
sub flush_message { return message('H', ''); }
sub sync_message { return message('S', ''); }

sub bind_message
{
	my ($portal, $name, @values) = @_;
	return message('B', "$portal\0$name\0" . pack('nn', 0, scalar @values) . join('', map { defined $_ ? pack('N', length $_) . $_ : pack 'l>', -1 } @values) . pack 'n', 0);
}

sub send_bytes { my ($self, $bytes) = @_; $self->_write($bytes); return; }

# Waits until the server has read all that was sent.
sub wait_until_taken
{
	my ($self) = @_;
	my $left = pack 'i', 0;

	while (1)
	{
		ioctl $self->{socket}, 0x5411, $left or croak "SIOCOUTQ: $!";
		last if unpack('i', $left) == 0;
		usleep(100);
	}
	return;
}

# Returns all messages up to ReadyForQuery, or up to the end of the connection: then the last one
# has the type "end".
sub read_messages
{
	my ($self) = @_;
	my @messages;

	while (1)
	{
		my ($type, $payload) = eval { $self->_read_message };
		push @messages, defined $type ? [ $type, $payload ] : [ 'end', '' ];
		return @messages if !defined $type || $type eq 'Z';
	}
}

# Ends the connection as a client that dies does.
sub break_off
{
	my ($self) = @_;
	CORE::close $self->{socket};
	delete $self->{socket};
	return;
}

# Sends a cancel request for the running statement.
sub cancel
{
	my ($self) = @_;
	my $socket = IO::Socket::UNIX->new(Type => SOCK_STREAM(), Peer => $self->{path}) or return;
	syswrite $socket, pack('NN', 8 + length $self->{key}, 80877102) . $self->{key};
	sysread $socket, my $nothing, 1;    # the server closes
	CORE::close $socket;
	return;
}

sub _write
{
	my ($self, $bytes) = @_;
	my $done = 0;

	while ($done < length $bytes)
	{
		my $n = syswrite $self->{socket}, $bytes, 1 << 20, $done;
		next if !defined $n && $!{EINTR};
		croak "could not write to the server: $!" unless defined $n;
		$done += $n;
	}
	return;
}

sub _need
{
	my ($self, $nbytes) = @_;

	while (length $self->{buffer} < $nbytes)
	{
		if (defined $self->{until})
		{
			vec(my $reads = '', fileno $self->{socket}, 1) = 1;
			my $left = $self->{until} - time;
			return 0 if $left <= 0;
			my $nready = select($reads, undef, undef, $left);
			next if $nready < 0 && $!{EINTR};
			return 0 if $nready <= 0;
		}
		my $n = sysread $self->{socket}, $self->{buffer}, 1 << 16, length $self->{buffer};
		next if !defined $n && $!{EINTR};    # a process of the test has ended
		croak 'the server closed the connection' unless $n;
	}
	return 1;
}

# Returns nothing if no message comes in time.
sub _read_message
{
	my ($self) = @_;

	$self->_need(5) or return;
	my ($type, $len) = unpack 'a1 N', $self->{buffer};
	$self->_need($len + 1) or return;
	my $payload = substr $self->{buffer}, 5, $len - 4;
	substr($self->{buffer}, 0, $len + 1) = '';
	return ($type, $payload);
}

sub _fields
{
	my ($payload) = @_;
	my %fields;

	while ($payload =~ /\G([^\0])([^\0]*)\0/gs) { $fields{$1} = $2; }
	return \%fields;
}

sub _values
{
	my ($payload) = @_;
	my ($n, $at) = (unpack('n', $payload), 2);
	my @values;

	for (1 .. $n)
	{
		my $len = unpack 'l>', substr $payload, $at, 4;
		$at += 4;
		push @values, $len < 0 ? undef : substr $payload, $at, $len;
		$at += $len if $len > 0;
	}
	return \@values;
}

1;
