#!/usr/bin/perl
# stall.pl PORT: peers that harm nobody but by being there: ten say nothing after TCP's handshake, ten stop in the middle
# of CONNECT, and ten send a byte of it every four seconds, beginning spread over them.  Whom the server throws out comes
# back at once.  Prints a line for each connection that is made, and runs until it is killed.

use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use Time::HiRes qw(time);

my $port = shift(@ARGV) or die "usage: stall.pl PORT\n";
my $connect = "\x10\x1c\x00\x04MQTT\x04\x02\x00\x3c\x00\x10stalling-peer-00";
my $watched = IO::Select->new;
my %peer;

$| = 1;

sub come
{
	my ($kind, $number) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 5) or return;

	# Enough to be taken for a CONNECT; the rest never comes.
	my $half = substr($connect, 0, 14);
	$socket->syswrite($half) if $kind eq 'half';
	$peer{$socket} = { kind => $kind, number => $number, sent => 0, next => time() + 4 * $number / 10 };
	$watched->add($socket);
	print "$kind $number\n";
}

for my $number (0 .. 9)
{
	come($_, $number) for qw(silent half slow);
}
while (1)
{
	for my $socket ($watched->can_read(0.05))
	{
		next if $socket->sysread(my $bytes, 4096);
		my $gone = delete $peer{$socket};
		$watched->remove($socket);
		$socket->close;
		come($gone->{kind}, $gone->{number});
	}
	for my $socket ($watched->handles)
	{
		my $p = $peer{$socket};
		next unless $p->{kind} eq 'slow' && time() >= $p->{next};
		$p->{next} += 4;
		# Stays one byte short of the packet, for as long as the server bears it.
		$socket->syswrite(substr($connect, $p->{sent}++, 1)) if $p->{sent} < length($connect) - 1;
	}
	select(undef, undef, undef, 0.05) unless $watched->count;
}
