#!/usr/bin/perl
# deaf.pl PORT FILTER: two subscribers, at QoS 0 and 1, that stop reading as soon as they have subscribed.  Prints a line
# for each and keeps both open until it is killed.

use strict;
use warnings;
use IO::Socket::INET;

my ($port, $filter) = @ARGV;
die "usage: deaf.pl PORT FILTER\n" unless defined $filter;
my @deaf;

$| = 1;

sub packet
{
	my ($first, $body) = @_;

	die "packet of more than 127 bytes\n" if length($body) > 127;
	return chr($first) . chr(length($body)) . $body;
}

# Answers are short and come alone, since nothing is delivered before SUBACK.
sub take
{
	my ($socket, $len, $what) = @_;
	my $bytes = '';

	while (length($bytes) < $len)
	{
		$socket->sysread($bytes, $len - length($bytes), length($bytes)) or die "no $what\n";
	}
	return;
}

for my $qos (0, 1)
{
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => 5) or die "port $port: $!\n";

	# No keep alive: the server is to keep it, not to throw it out.
	$socket->syswrite(packet(0x10, pack('n/a* C C n n/a*', 'MQTT', 4, 2, 0, "deaf-$qos")));
	take($socket, 4, 'CONNACK');
	$socket->syswrite(packet(0x82, pack('n n/a* C', 1, $filter, $qos)));
	take($socket, 5, 'SUBACK');
	push @deaf, $socket;
	print "deaf at QoS $qos\n";
}
sleep(1000) while 1;
